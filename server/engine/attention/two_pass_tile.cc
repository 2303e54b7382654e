#include <algorithm>
#include <cmath>
#include <limits>

#include "server/engine/attention/float64_row.h"
#include "server/engine/attention/row_outputs.h"
#include "server/engine/attention/tile.h"
#include "server/engine/kernels/row_kernels.h"

namespace attention::server {
namespace {

class TwoPassTile {
 public:
  explicit TwoPassTile(const Tile& tile)
      : tile_(tile), call_(tile.call), worker_(tile.worker), chunks_(tile.chunks()), float64_(tile) {}

  TileResult Run() {
    const int64_t stride = KeyBucket(Columns(chunks_));
    weights_ = {worker_.weights.Reserve(tile_.height() * stride), tile_.rows, tile_.height(), range().size(), stride};
    ComputeMaskedScores();
    if (call_.extra_outputs.log_sum_exp != nullptr) KeepLargestScores();
    worker_.onednn.Softmax(weights_.height, weights_.stride, weights_.scores);
    RowCorrections(weights_, result_.factors.data());
    if (call_.extra_outputs.log_sum_exp != nullptr) TakeLogSumExp();
    WeighInFloat64();
    PutWeights();
    AddContexts();
    AverageInFloat64();
    return result_;
  }

 private:
  KeyRange range() const { return {chunks_.front().range.begin, chunks_.back().range.end}; }

  void ComputeMaskedScores() {
    const float* queries = ScaledQueries(tile_);
    const int64_t size = tile_.head_dim();
    MeasureNorms({queries, tile_.rows, size, size + 1}, query_norms_.data());
    const void* query = QueryOperand(tile_, queries);
    for (const KeyChunk& chunk : chunks_) {
      if (&chunk != chunks_.data() && call_.ShouldStop()) return;
      const ScoreTile scores{worker_.scores.Reserve(tile_.height() * chunk.columns), tile_.rows, tile_.height(),
                             chunk.range.size(), chunk.columns};
      const MatmulShape shape{.m = tile_.height(),
                              .k = tile_.head_dim() + 1,
                              .n = chunk.columns,
                              .operands = tile_.operands(),
                              .weights = WeightsLayout::kTransposed};
      worker_.onednn.Matmul(shape, query, chunk.keys, nullptr, scores.scores);
      PutScores(chunk, scores);
      if (call_.options.softcap != 0) CapScores(worker_.onednn, call_.options.softcap, scores, worker_.capped);
      tile_.outputs.PutScores(scores, tile_.first_query, chunk.range.begin, call_.extra_outputs.capped_scores);
      MaskChunk(chunk, scores);
      tile_.outputs.PutScores(scores, tile_.first_query, chunk.range.begin, call_.extra_outputs.masked_scores);
      CopyScores(chunk, scores);
    }
    for (int64_t row = 0; row < tile_.rows; ++row) {
      if (sees_key_[row]) continue;
      result_.rows[row] = TileResult::Row::kSeesNoKey;
      // The softmax of a row of −∞ would be NaN.
      std::fill_n(weights_.row(row), weights_.stride, 0.0f);
    }
  }

  void PutScores(const KeyChunk& chunk, const ScoreTile& scores) {
    if (call_.extra_outputs.scores == nullptr) return;
    tile_.outputs.PutScores(scores, tile_.first_query, chunk.range.begin, call_.extra_outputs.scores);
    for (int64_t row = 0; row < tile_.rows; ++row) {
      if (!AllFinite(scores.row(row), scores.keys, 1)) call_.AddNonFinite(FormulaTensor::kScores);
    }
  }

  void MaskChunk(const KeyChunk& chunk, const ScoreTile& scores) {
    for (int64_t row = 0; row < tile_.rows; ++row) {
      const int64_t query = tile_.first_query + row;
      const bool sees = tile_.mask.Apply(query, chunk.range, chunk.columns, scores.row(row), worker_.mask);
      sees_key_[row] = sees_key_[row] || sees;
    }
  }

  // Copies the scores of a chunk to their place in the rows of the softmax.
  void CopyScores(const KeyChunk& chunk, const ScoreTile& scores) {
    const int64_t first = chunk.range.begin - range().begin;
    const bool is_last = chunk.range.end == range().end;
    for (int64_t row = 0; row < tile_.rows; ++row) {
      float* end = std::copy_n(scores.row(row), chunk.range.size(), weights_.row(row) + first);
      if (is_last) std::fill(end, weights_.row(row) + weights_.stride, -std::numeric_limits<float>::infinity());
    }
  }

  void KeepLargestScores() {
    for (int64_t row = 0; row < tile_.rows; ++row) {
      const float* scores = weights_.row(row);
      result_.log_sum_exp[row] = static_cast<double>(*std::max_element(scores, scores + weights_.keys));
    }
  }

  // The largest weight is exp(largest score − log Σ exp). It is at least 1/keys, so it has full precision.
  void TakeLogSumExp() {
    for (int64_t row = 0; row < tile_.rows; ++row) {
      const float* weights = weights_.row(row);
      const float largest = *std::max_element(weights, weights + weights_.keys);
      result_.log_sum_exp[row] -= std::log(largest * result_.factors[row]);
    }
  }

  // Replaces the weights of rows whose scores may exceed float32.
  void WeighInFloat64() {
    const float largest_norm = worker_.head.LargestNorm(range());
    for (int64_t row = 0; row < tile_.rows; ++row) {
      if (!sees_key_[row] || query_norms_[row] * largest_norm < kLargestSafeBound) continue;
      if (float64_.Weigh(row, query_norms_[row], range(), weights_.row(row), &result_.log_sum_exp[row])) {
        result_.factors[row] = 1;
      }
    }
  }

  // Replaces the contexts of rows whose values are so large that their weighted sum overflows.
  void AverageInFloat64() {
    for (int64_t row = 0; row < tile_.rows; ++row) {
      if (!sees_key_[row] || HasFiniteContext(tile_, result_, row)) continue;
      const int64_t size = tile_.value_head_dim();
      if (float64_.Average(range(), weights_.row(row), result_.context + row * size)) result_.factors[row] = 1;
    }
  }

  void PutWeights() {
    if (!call_.extra_outputs.needs_weights()) return;
    for (int64_t row = 0; row < tile_.rows; ++row) {
      if (!sees_key_[row]) continue;
      tile_.outputs.PutWeights(tile_.first_query + row, range(), weights_.row(row), result_.factors[row], worker_.row);
    }
  }

  void AddContexts() {
    // Weights that are rounded must be corrected first; otherwise correcting the context is cheaper.
    std::array<double, kTileRows> corrections;
    corrections.fill(1);
    if (tile_.operands() != DType::kFloat32) std::swap(corrections, result_.factors);
    result_.context = worker_.context.Reserve(tile_.height() * tile_.value_head_dim());
    for (const KeyChunk& chunk : chunks_) {
      float* dense = worker_.scores.Reserve(tile_.height() * chunk.columns);
      const int64_t first = chunk.range.begin - range().begin;
      for (int64_t row = 0; row < tile_.rows; ++row) {
        float* to = dense + row * chunk.columns;
        Correct(weights_.row(row) + first, chunk.range.size(), corrections[row], to);
        std::fill(to + chunk.range.size(), to + chunk.columns, 0.0f);
      }
      AddContext(tile_, chunk, dense, nullptr, &chunk == chunks_.data(), result_.context);
    }
  }

  const Tile& tile_;
  const AttentionCall& call_;
  Worker& worker_;
  const absl::Span<const KeyChunk> chunks_;
  Float64Row float64_;
  ScoreTile weights_;
  std::array<bool, kTileRows> sees_key_{};
  std::array<float, kTileRows> query_norms_;  // scaled
  TileResult result_;
};

}  // namespace

TileResult AttendTwoPass(const Tile& tile) { return TwoPassTile(tile).Run(); }

}  // namespace attention::server
