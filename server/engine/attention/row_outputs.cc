#include "server/engine/attention/row_outputs.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "server/engine/kernels/row_kernels.h"

namespace attention::server {

void CapScores(Onednn& onednn, float softcap, const ScoreTile& tile, Buffer& scratch) {
  const int64_t count = tile.height * tile.stride;
  for (int64_t i = 0; i < count; ++i) tile.scores[i] /= softcap;
  float* capped = scratch.Reserve(count);
  onednn.Tanh(tile.height, tile.stride, tile.scores, capped);
  for (int64_t i = 0; i < count; ++i) {
    tile.scores[i] = std::isnan(tile.scores[i]) ? tile.scores[i] : capped[i] * softcap;
  }
}

void RowCorrections(const ScoreTile& tile, double* corrections) {
  std::fill_n(corrections, tile.rows, 0.0);
  AddSums({tile.scores, tile.rows, tile.keys, tile.stride}, corrections);
  for (int64_t row = 0; row < tile.rows; ++row) corrections[row] = 1.0 / corrections[row];
}

void RowOutputs::PutScores(const ScoreTile& tile, int64_t first_query, int64_t first_key, float* to) const {
  if (to == nullptr) return;
  to += RowIndex(first_query) * shape_.kv_length + first_key;
  for (int64_t row = 0; row < tile.rows; ++row) std::copy_n(tile.row(row), tile.keys, to + row * shape_.kv_length);
}

void RowOutputs::PutWeights(int64_t query, KeyRange keys, const float* weights, double correction,
                            Buffer& scratch) const {
  float* row = ZeroRow(query, scratch);
  Correct(weights, keys.size(), correction, row + keys.begin);
  PutRow(query, row);
}

void RowOutputs::PutEmptyRow(int64_t query, float weight, Buffer& scratch) const {
  float* row = ZeroRow(query, scratch);
  std::fill_n(row, shape_.kv_length, weight);
  PutRow(query, row);
}

void RowOutputs::PutLogSumExp(int64_t query, double log_sum_exp) const {
  if (outputs_.log_sum_exp == nullptr) return;
  outputs_.log_sum_exp[RowIndex(query)] = static_cast<float>(log_sum_exp);
}

// The query's row of attn_weights, which is zero already; if the call does not request it, a zero row in `scratch`.
float* RowOutputs::ZeroRow(int64_t query, Buffer& scratch) const {
  if (outputs_.attn_weights != nullptr) return outputs_.attn_weights + RowIndex(query) * shape_.kv_length;
  float* row = scratch.Reserve(shape_.kv_length);
  std::fill_n(row, shape_.kv_length, 0.0f);
  return row;
}

void RowOutputs::PutRow(int64_t query, const float* row) const {
  if (outputs_.mean_attn_weights != nullptr) {
    float* mean = outputs_.mean_attn_weights + (sequence_ * shape_.q_length + query) * shape_.kv_length;
    const float share = 1.0f / static_cast<float>(shape_.heads.num_heads);
    for (int64_t key = 0; key < shape_.kv_length; ++key) mean[key] += row[key] * share;
  }
  if (outputs_.top_keys != nullptr) PutTopKeys(query, row);
}

void RowOutputs::PutTopKeys(int64_t query, const float* row) const {
  int32_t* keys = outputs_.top_keys + RowIndex(query) * top_k_;
  float* weights = outputs_.top_weights + RowIndex(query) * top_k_;
  for (const int64_t key : LargestIndices(row, shape_.kv_length, top_k_)) {
    *keys++ = row[key] != 0.0f ? static_cast<int32_t>(key) : -1;
    *weights++ = row[key];
  }
}

std::vector<int64_t> LargestIndices(const float* row, int64_t size, int64_t count) {
  const auto larger = [row](int64_t a, int64_t b) {
    if (std::isnan(row[a]) || std::isnan(row[b])) {
      return std::isnan(row[a]) != std::isnan(row[b]) ? std::isnan(row[a]) : a < b;
    }
    return row[a] != row[b] ? row[a] > row[b] : a < b;
  };
  std::vector<int64_t> indices(size);
  std::iota(indices.begin(), indices.end(), 0);
  std::partial_sort(indices.begin(), indices.begin() + count, indices.end(), larger);
  indices.resize(count);
  return indices;
}

}  // namespace attention::server
