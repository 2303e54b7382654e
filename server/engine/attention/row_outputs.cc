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

bool WantsWeights(const AttentionCall& call) {
  return call.also.attn_weights != nullptr || call.also.mean_attn_weights != nullptr || call.also.top_keys != nullptr;
}

void RowOutputs::PutScores(const ScoreTile& tile, int64_t first_query, int64_t first_key, float* to) const {
  if (to == nullptr) return;
  to += RowIndex(first_query) * call_.kv_length + first_key;
  for (int64_t row = 0; row < tile.rows; ++row) std::copy_n(tile.row(row), tile.keys, to + row * call_.kv_length);
}

void RowOutputs::PutWeights(int64_t query, KeyRange keys, const float* weights, double correction,
                            Buffer& scratch) const {
  float* row = ZeroRow(query, scratch);
  Correct(weights, keys.size(), correction, row + keys.begin);
  PutRow(query, row);
}

void RowOutputs::PutEmptyRow(int64_t query, float weight, Buffer& scratch) const {
  float* row = ZeroRow(query, scratch);
  std::fill_n(row, call_.kv_length, weight);
  PutRow(query, row);
}

void RowOutputs::PutLogSumExp(int64_t query, double log_sum_exp) const {
  if (call_.also.log_sum_exp == nullptr) return;
  call_.also.log_sum_exp[RowIndex(query)] = static_cast<float>(log_sum_exp);
}

// Its place in attn_weights, if that was asked for; it is zero there already.
float* RowOutputs::ZeroRow(int64_t query, Buffer& scratch) const {
  if (call_.also.attn_weights != nullptr) return call_.also.attn_weights + RowIndex(query) * call_.kv_length;
  float* row = scratch.Reserve(call_.kv_length);
  std::fill_n(row, call_.kv_length, 0.0f);
  return row;
}

void RowOutputs::PutRow(int64_t query, const float* row) const {
  if (call_.also.mean_attn_weights != nullptr) {
    float* mean = call_.also.mean_attn_weights + (sequence_ * call_.q_length + query) * call_.kv_length;
    const float share = 1.0f / static_cast<float>(call_.heads.num_heads);
    for (int64_t key = 0; key < call_.kv_length; ++key) mean[key] += row[key] * share;
  }
  if (call_.also.top_keys != nullptr) PutTopKeys(query, row);
}

void RowOutputs::PutTopKeys(int64_t query, const float* row) const {
  const int64_t top_k = call_.options.top_k;
  int32_t* keys = call_.also.top_keys + RowIndex(query) * top_k;
  float* weights = call_.also.top_weights + RowIndex(query) * top_k;
  for (const int64_t key : LargestIndices(row, call_.kv_length, top_k)) {
    const bool counts = row[key] != 0.0f;
    *keys++ = counts ? static_cast<int32_t>(key) : -1;
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
