#include "server/engine/attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "server/engine/head_mask.h"
#include "server/engine/packed_head.h"
#include "server/engine/packing.h"
#include "server/engine/row_outputs.h"
#include "server/engine/score_tile.h"
#include "server/engine/tile_plan.h"

namespace attention::server {
namespace {

// Some queries of one sequence and head.
class HeadAttention {
 public:
  HeadAttention(const AttentionUnit& unit, int64_t head, Worker& worker)
      : unit_(unit),
        call_(*unit.projected->call),
        head_(head),
        kv_head_(call_.heads.KvHead(head)),
        mask_(call_, unit.sequence, head),
        outputs_(call_, unit.sequence, head),
        worker_(worker) {}

  void Run() {
    const int64_t tiles = (unit_.queries + kTileRows - 1) / kTileRows;
    std::array<KeyRange, kTilesPerUnit> ranges;
    KeyRange all;
    for (int64_t i = 0; i < tiles; ++i) {
      ranges[i] = mask_.TileRange(FirstQuery(i), Rows(i));
      all = Union(all, ranges[i]);
    }
    if (!all.empty()) worker_.head.Pack(worker_.onednn, operands(), Keys(), Values(), all);
    for (int64_t i = 0; i < tiles; ++i) {
      if (ranges[i].empty()) {
        for (int64_t row = 0; row < Rows(i); ++row) PutEmptyRow(FirstQuery(i) + row);
      } else {
        RunTile(FirstQuery(i), Rows(i));
      }
    }
    if (call_.empty_rows != nullptr && !empty_rows_.empty()) call_.empty_rows->Add(empty_rows_);
  }

 private:
  DType operands() const { return call_.options.compute_dtype; }
  int64_t FirstQuery(int64_t tile) const { return unit_.first_query + tile * kTileRows; }
  int64_t Rows(int64_t tile) const { return std::min(kTileRows, unit_.queries - tile * kTileRows); }

  HeadRows Keys() const { return {&unit_.projected->key, unit_.sequence, kv_head_, call_.heads.head_dim}; }
  HeadRows Values() const { return {&unit_.projected->value, unit_.sequence, kv_head_, call_.heads.value_head_dim}; }

  void RunTile(int64_t first, int64_t rows) {
    const PackedHead& packed = worker_.head;
    const int64_t height = TileHeight(rows);
    const ScoreTile tile{worker_.scores.Reserve(height * packed.columns()), rows, height, packed.range().size(),
                         packed.columns()};
    worker_.onednn.Matmul({.m = height, .k = call_.heads.head_dim, .n = packed.columns(), .operands = operands()},
                          ScaledQuery(first, rows, height), packed.keys(), nullptr, tile.scores);
    outputs_.PutScores(tile, first, packed.range().begin, call_.also.scores);
    CapAndMask(tile, first);

    double log_sum_exp[kTileRows];
    if (call_.also.log_sum_exp != nullptr) LargestScores(tile, log_sum_exp);
    worker_.onednn.Softmax(height, tile.stride, tile.scores);
    double corrections[kTileRows];
    RowCorrections(tile, corrections);
    if (call_.also.log_sum_exp != nullptr) PutLogSumExp(tile, first, corrections, log_sum_exp);
    for (int64_t row = 0; outputs_.wants_weights() && row < rows; ++row) {
      if (is_empty_[row]) continue;
      outputs_.PutWeights(first + row, packed.range(), tile.row(row), corrections[row], worker_.weights);
    }
    PutContext(tile, first, corrections);
  }

  const void* ScaledQuery(int64_t first, int64_t rows, int64_t height) {
    const int64_t size = call_.heads.head_dim;
    float* query = worker_.query.Reserve(height * size);
    unit_.projected->query.Read(unit_.sequence, head_, first, rows, size, query);
    for (int64_t i = 0; i < rows * size; ++i) query[i] *= call_.options.scale;
    std::fill(query + rows * size, query + height * size, 0.0f);
    return worker_.onednn.Operand(operands(), height * size, query, worker_.operand);
  }

  // From here on `is_empty_` knows the rows that see no key. Their scores become 0, for the softmax of nothing but −∞
  // would be NaN.
  void CapAndMask(const ScoreTile& tile, int64_t first) {
    if (call_.options.softcap != 0) CapScores(worker_.onednn, call_.options.softcap, tile, worker_.capped);
    const KeyRange keys = worker_.head.range();
    outputs_.PutScores(tile, first, keys.begin, call_.also.capped_scores);
    for (int64_t row = 0; row < tile.rows; ++row) {
      is_empty_[row] = !mask_.Apply(first + row, keys, tile.stride, tile.row(row), worker_.mask);
    }
    outputs_.PutScores(tile, first, keys.begin, call_.also.masked_scores);
    for (int64_t row = 0; row < tile.rows; ++row) {
      if (is_empty_[row]) std::fill_n(tile.row(row), tile.stride, 0.0f);
    }
  }

  static void LargestScores(const ScoreTile& tile, double* largest) {
    for (int64_t row = 0; row < tile.rows; ++row) {
      largest[row] = static_cast<double>(*std::max_element(tile.row(row), tile.row(row) + tile.keys));
    }
  }

  // The largest weight is exp(largest score − log Σ exp), which is at least 1/keys and so has all its digits.
  void PutLogSumExp(const ScoreTile& tile, int64_t first, const double* corrections, const double* largest) const {
    for (int64_t row = 0; row < tile.rows; ++row) {
      if (is_empty_[row]) continue;
      const float weight = *std::max_element(tile.row(row), tile.row(row) + tile.keys);
      outputs_.PutLogSumExp(first + row, largest[row] - std::log(weight * corrections[row]));
    }
  }

  void PutContext(const ScoreTile& tile, int64_t first, double* corrections) {
    const int64_t size = call_.heads.value_head_dim;
    if (operands() != DType::kFloat32) {
      // The weights themselves are rounded, so they must be right before.
      for (int64_t row = 0; row < tile.rows; ++row) {
        Correct(tile.row(row), tile.keys, corrections[row], tile.row(row));
        corrections[row] = 1;
      }
    }
    float* context = worker_.context.Reserve(tile.height * size);
    worker_.onednn.Matmul({.m = tile.height, .k = tile.stride, .n = size, .operands = operands()},
                          worker_.onednn.Operand(operands(), tile.height * tile.stride, tile.scores, worker_.operand),
                          worker_.head.values(), nullptr, context);
    for (int64_t row = 0; row < tile.rows; ++row) {
      if (is_empty_[row]) {
        PutEmptyRow(first + row);
        continue;
      }
      float* result = context + row * size;
      worker_.head.AddNonFinite(tile.row(row), result);
      Correct(result, size, corrections[row], result);
      PutContextRow(first + row, result);
    }
  }

  void PutEmptyRow(int64_t query) {
    const bool uniform = call_.options.empty_rows == EmptyRowRule::kUniform && call_.kv_length > 0;
    const float weight = uniform ? 1.0f / static_cast<float>(call_.kv_length) : 0.0f;
    if (empty_row_context_.empty()) empty_row_context_ = MeanRow(Values(), uniform ? call_.kv_length : 0);
    if (outputs_.wants_weights()) outputs_.PutEmptyRow(query, weight, worker_.weights);
    outputs_.PutLogSumExp(query, -std::numeric_limits<double>::infinity());
    PutContextRow(query, empty_row_context_.data());
    empty_rows_.push_back({unit_.sequence, head_, query});
  }

  void PutContextRow(int64_t query, const float* row) const {
    const int64_t size = call_.heads.value_head_dim;
    const HeadOutput& context = unit_.projected->context;
    FromFloat32(row, size, context.dtype, context.At(unit_.sequence, head_, query));
    if (call_.also.context == nullptr) return;
    const int64_t token = unit_.sequence * call_.q_length + query;
    std::copy_n(row, size, call_.also.context + (token * call_.heads.num_heads + head_) * size);
  }

  const AttentionUnit& unit_;
  const AttentionCall& call_;
  const int64_t head_;
  const int64_t kv_head_;
  const HeadMask mask_;
  const RowOutputs outputs_;
  Worker& worker_;

  std::array<bool, kTileRows> is_empty_{};  // of the tile at hand
  std::vector<float> empty_row_context_;    // made when the first such row is met
  std::vector<EmptyRows::Index> empty_rows_;
};

}  // namespace

void Attend(const AttentionUnit& unit, Worker& worker) {
  for (int64_t i = 0; i < unit.heads; ++i) HeadAttention(unit, unit.first_head + i, worker).Run();
}

}  // namespace attention::server
