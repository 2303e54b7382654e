#include <algorithm>
#include <cmath>

#include "server/engine/attention/tile.h"
#include "server/engine/kernels/row_kernels.h"

namespace attention::server {
namespace {

// If the sum is smaller, the largest score is about 20 below the bound, and float32 represents the difference with an
// error of about 10⁻⁶.
constexpr double kLeastSum = 1e-9;

// Largest sum for each visible key. In exact arithmetic it is 1; the bound and, with bfloat16, the operands are
// rounded, so a large score may exceed the bound. Up to about 20, as above, the difference is as exact.
constexpr double kLargestWeight = 1e9;

class FusedExpTile {
 public:
  explicit FusedExpTile(const Tile& tile) : tile_(tile), worker_(tile.worker), chunks_(tile.chunks()) {}

  TileResult Run() {
    float* queries = ScaledQueries(tile_);
    BoundRows(queries);
    const void* query = QueryOperand(tile_, queries);
    result_.context = worker_.context.Reserve(tile_.height() * tile_.value_head_dim());
    if (tile_.operands() == DType::kFloat32) {
      ExpAndContextPerChunk(query);
    } else {
      AllExpThenContext(query);
    }
    for (int64_t row = 0; row < tile_.rows; ++row) Finish(row);
    return result_;
  }

 private:
  // Sets the last number of each query to −bound, which the product adds to all its scores.
  void BoundRows(float* queries) {
    const SequenceLimits limits = tile_.call.LimitsOf(tile_.queries.sequence);
    const int64_t size = tile_.head_dim();
    std::array<float, kTileRows> norms;
    MeasureNorms({queries, tile_.rows, size, size + 1}, norms.data());
    for (int64_t row = 0; row < tile_.rows; ++row) {
      ranges_[row] = limits.RangeOf(tile_.first_query + row);
      if (ranges_[row].empty()) continue;
      negative_bounds_[row] = RoundedToOperand(-norms[row] * worker_.head.LargestNorm(ranges_[row]));
      queries[row * (size + 1) + size] = negative_bounds_[row];
    }
  }

  // The number that the product uses in its place.
  float RoundedToOperand(float number) const {
    if (tile_.operands() == DType::kFloat32) return number;
    std::byte narrow[2];
    FromFloat32(&number, 1, DType::kBFloat16, narrow);
    ToFloat32(DType::kBFloat16, narrow, 1, &number);
    return number;
  }

  void ExpAndContextPerChunk(const void* query) {
    bool is_first = true;
    for (const KeyChunk& chunk : chunks_) {
      if (!is_first && tile_.call.ShouldStop()) return;
      float* weights = worker_.scores.Reserve(tile_.height() * chunk.columns);
      Exponentiate(query, chunk, weights);
      AddContext(tile_, chunk, weights, nullptr, is_first, result_.context);
      is_first = false;
    }
  }

  // Weights must be normalized before they are rounded, which requires the sum over all chunks.
  void AllExpThenContext(const void* query) {
    float* const all = worker_.scores.Reserve(tile_.height() * Columns(chunks_));
    float* weights = all;
    for (const KeyChunk& chunk : chunks_) {
      if (weights != all && tile_.call.ShouldStop()) return;
      Exponentiate(query, chunk, weights);
      weights += tile_.height() * chunk.columns;
    }
    weights = all;
    std::array<double, kTileRows> factors{};
    for (int64_t row = 0; row < tile_.rows; ++row) factors[row] = 1 / sums_[row];
    for (const KeyChunk& chunk : chunks_) {
      AddContext(tile_, chunk, weights, factors.data(), weights == all, result_.context);
      weights += tile_.height() * chunk.columns;
    }
  }

  // weights = exp(scores − bound), 0 for keys that the row does not see. Adds them to the sums.
  void Exponentiate(const void* query, const KeyChunk& chunk, float* weights) {
    const MatmulShape shape{.m = tile_.height(),
                            .k = tile_.head_dim() + 1,
                            .n = chunk.columns,
                            .operands = tile_.operands(),
                            .weights = WeightsLayout::kTransposed,
                            .exponential = true};
    worker_.onednn.Matmul(shape, query, chunk.keys, nullptr, weights);
    for (int64_t row = 0; row < tile_.rows; ++row) {
      float* of_row = weights + row * chunk.columns;
      const int64_t begin = std::clamp<int64_t>(ranges_[row].begin - chunk.range.begin, 0, chunk.columns);
      const int64_t end = std::clamp<int64_t>(ranges_[row].end - chunk.range.begin, begin, chunk.columns);
      std::fill(of_row, of_row + begin, 0.0f);
      std::fill(of_row + end, of_row + chunk.columns, 0.0f);
    }
    AddSums({weights, tile_.rows, chunk.columns, chunk.columns}, sums_.data());
  }

  void Finish(int64_t row) {
    if (ranges_[row].empty()) {
      result_.rows[row] = TileResult::Row::kSeesNoKey;
      return;
    }
    result_.factors[row] = tile_.operands() == DType::kFloat32 ? 1 / sums_[row] : 1;
    if (!IsReliable(row)) {
      result_.rows[row] = TileResult::Row::kUnreliable;
      return;
    }
    if (tile_.call.extra_outputs.log_sum_exp == nullptr) return;
    result_.log_sum_exp[row] = std::log(sums_[row]) - static_cast<double>(negative_bounds_[row]);
  }

  bool IsReliable(int64_t row) const {
    const double largest_sum = kLargestWeight * static_cast<double>(ranges_[row].size());
    return -negative_bounds_[row] < kLargestSafeBound && sums_[row] >= kLeastSum && sums_[row] <= largest_sum &&
           HasFiniteContext(tile_, result_, row);
  }

  const Tile& tile_;
  Worker& worker_;
  const absl::Span<const KeyChunk> chunks_;
  std::array<KeyRange, kTileRows> ranges_;
  std::array<float, kTileRows> negative_bounds_{};
  std::array<double, kTileRows> sums_{};
  TileResult result_;
};

}  // namespace

bool CanUseFusedExp(const AttentionCall& call) {
  const bool plain_scores = call.bias.data == nullptr && call.options.softcap == 0;
  const ExtraOutputs& extra = call.extra_outputs;
  const bool needs_scores = extra.scores != nullptr || extra.capped_scores != nullptr || extra.masked_scores != nullptr;
  return call.mask.has_only_limits() && plain_scores && !needs_scores && !extra.needs_weights() &&
         !call.options.compute_hidden;
}

TileResult AttendFusedExp(const Tile& tile) { return FusedExpTile(tile).Run(); }

}  // namespace attention::server
