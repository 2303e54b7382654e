#include "server/engine/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "server/engine/attention/tile.h"
#include "server/engine/kernels/row_kernels.h"

namespace attention::server {
namespace {

// The queries of a unit and one of its heads.
class HeadAttention {
 public:
  HeadAttention(const AttentionUnit& unit, int64_t head, Worker& worker)
      : unit_(unit),
        call_(*unit.tensors->slice.call),
        heads_(call_.shape.heads),
        head_(head),
        kv_head_(heads_.KvHead(head)),
        mask_(call_, unit.sequence, head),
        outputs_(call_, unit.sequence, head),
        worker_(worker) {}

  void Run() {
    struct QueryTile {
      int64_t first, rows;
      KeyRange keys;
    };
    absl::InlinedVector<QueryTile, kUnitQueries / 64> tiles;
    KeyRange all;
    for (int64_t done = 0; done < unit_.queries; done += tiles.back().rows) {
      const int64_t first = unit_.first_query + done;
      const int64_t rows = NextTile(unit_.queries - done);
      tiles.push_back({first, rows, mask_.TileRange(first, rows)});
      all = Union(all, tiles.back().keys);
    }
    if (!all.empty()) {
      worker_.head.Read(worker_.onednn, call_.options.compute_dtype, Keys(), Values(), all,
                        ChunkKeys(call_.LimitsOf(unit_.sequence)), call_.stop);
    }
    for (const QueryTile& tile : tiles) {
      if (call_.ShouldStop()) return;
      RunTile(tile.first, tile.rows, tile.keys);
    }
    if (call_.empty_rows != nullptr && !empty_rows_.empty()) call_.empty_rows->Add(empty_rows_);
  }

 private:
  HeadRows Queries() const { return {&unit_.tensors->query, unit_.sequence, head_, heads_.head_dim}; }
  HeadRows Keys() const { return {&unit_.tensors->key, unit_.sequence, kv_head_, heads_.head_dim}; }
  HeadRows Values() const { return {&unit_.tensors->value, unit_.sequence, kv_head_, heads_.value_head_dim}; }

  void RunTile(int64_t first, int64_t rows, KeyRange keys) {
    if (keys.empty()) {
      for (int64_t row = 0; row < rows; ++row) PutEmptyRow(first + row);
      return;
    }
    const Tile tile{call_, Queries(), mask_, outputs_, worker_, first, rows, keys};
    if (!CanUseFusedExp(call_)) return PutRows(tile, AttendTwoPass(tile), [](int64_t) { return true; });

    const TileResult result = AttendFusedExp(tile);
    const auto is_unreliable = [&](int64_t row) { return result.rows[row] == TileResult::Row::kUnreliable; };
    PutRows(tile, result, [&](int64_t row) { return !is_unreliable(row); });
    for (int64_t row = 0; row < rows; ++row) {
      if (is_unreliable(row)) return PutRows(tile, AttendTwoPass(tile), is_unreliable);
    }
  }

  // Writes those rows of a tile for which `is_selected` is true.
  template <typename IsSelected>
  void PutRows(const Tile& tile, const TileResult& result, const IsSelected& is_selected) {
    const int64_t size = heads_.value_head_dim;
    for (int64_t row = 0; row < tile.rows; ++row) {
      if (!is_selected(row)) continue;
      const int64_t query = tile.first_query + row;
      if (result.rows[row] == TileResult::Row::kSeesNoKey) {
        PutEmptyRow(query);
        continue;
      }
      float* const context = result.context + row * size;
      float* const in_place = unit_.tensors->context.Float32At(unit_.sequence, head_, query);
      float* const corrected = in_place == nullptr ? context : in_place;
      Correct(context, size, result.factors[row], corrected);
      PutContextRow(query, corrected);
      PutLogSumExp(query, result.log_sum_exp[row]);
    }
  }

  void PutLogSumExp(int64_t query, double log_sum_exp) const {
    if (call_.extra_outputs.log_sum_exp == nullptr) return;
    outputs_.PutLogSumExp(query, log_sum_exp);
    if (!std::isfinite(static_cast<float>(log_sum_exp))) call_.AddNonFinite(FormulaTensor::kLogSumExp);
  }

  void PutEmptyRow(int64_t query) {
    const int64_t kv_length = call_.shape.kv_length;
    const bool uniform = call_.options.empty_rows == EmptyRowRule::kUniform && kv_length > 0;
    const float weight = uniform ? 1.0f / static_cast<float>(kv_length) : 0.0f;
    if (empty_row_context_.empty()) empty_row_context_ = MeanRow(Values(), uniform ? kv_length : 0, call_.stop);
    if (call_.extra_outputs.needs_weights()) outputs_.PutEmptyRow(query, weight, worker_.row);
    outputs_.PutLogSumExp(query, -std::numeric_limits<double>::infinity());
    PutContextRow(query, empty_row_context_.data());
    empty_rows_.push_back({unit_.sequence, head_, query});
  }

  // `row` may already be in its place in the context.
  void PutContextRow(int64_t query, const float* row) const {
    const int64_t size = heads_.value_head_dim;
    const HeadOutput& context = unit_.tensors->context;
    if (row != context.Float32At(unit_.sequence, head_, query)) {
      FromFloat32(row, size, context.dtype, context.At(unit_.sequence, head_, query));
    }
    if (!AllFinite(context.dtype, context.At(unit_.sequence, head_, query), size)) {
      call_.AddNonFinite(FormulaTensor::kContext);
    }
    if (call_.extra_outputs.context == nullptr) return;
    const int64_t token = unit_.sequence * call_.shape.q_length + query;
    std::copy_n(row, size, call_.extra_outputs.context + (token * heads_.num_heads + head_) * size);
  }

  const AttentionUnit& unit_;
  const AttentionCall& call_;
  const HeadShape& heads_;
  const int64_t head_;
  const int64_t kv_head_;
  const HeadMask mask_;
  const RowOutputs outputs_;
  Worker& worker_;

  std::vector<float> empty_row_context_;  // computed for the first row that sees no key
  std::vector<EmptyRowCounter::Index> empty_rows_;
};

}  // namespace

void Attend(const AttentionUnit& unit, Worker& worker) {
  for (int64_t i = 0; i < unit.heads; ++i) HeadAttention(unit, unit.first_head + i, worker).Run();
}

}  // namespace attention::server
