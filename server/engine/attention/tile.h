#pragma once

#include <array>
#include <cstdint>

#include "absl/types/span.h"
#include "server/engine/attention/head_mask.h"
#include "server/engine/attention/head_operands.h"
#include "server/engine/attention/row_outputs.h"
#include "server/engine/attention/worker.h"
#include "server/engine/attention_call.h"
#include "server/engine/onednn/tile_shapes.h"

namespace attention::server {

// At most kTileRows queries of one sequence and head, with everything they are computed from. Keys and values are in
// worker.head. Points to what it was made from.
struct Tile {
  const AttentionCall& call;
  const HeadRows queries;
  const HeadMask& mask;
  const RowOutputs& outputs;
  Worker& worker;
  int64_t first_query = 0;
  int64_t rows = 0;
  KeyRange keys;  // contains all keys that the queries see; not empty

  int64_t height() const { return TileHeight(rows); }
  DType operands() const { return call.options.compute_dtype; }
  int64_t head_dim() const { return call.shape.heads.head_dim; }
  int64_t value_head_dim() const { return call.shape.heads.value_head_dim; }

  // The chunks of worker.head that contain keys of the tile.
  absl::Span<const KeyChunk> chunks() const;
};

struct TileResult {
  enum class Row : uint8_t {
    kDone,
    kSeesNoKey,   // context and log_sum_exp are undefined
    kUnreliable,  // must be computed by AttendTwoPass
  };

  float* context = nullptr;                   // [height, value_head_dim], in the worker's memory
  std::array<double, kTileRows> factors;      // each row of `context` must be multiplied by its factor
  std::array<double, kTileRows> log_sum_exp;  // only if the call requests it
  std::array<Row, kTileRows> rows{};
};

// |query| · |key| below this bounds every partial sum of a score so that neither the score nor its sum with a finite
// bias can overflow: half a unit in the last place of the largest float32 is 2¹⁰³.
inline constexpr float kLargestSafeBound = 0x1p100f;

// True if a row of the context, and the row times its factor, are finite.
bool HasFiniteContext(const Tile& tile, const TileResult& result, int64_t row);

// The queries of a tile times options.scale: [height, head_dim + 1]. The last number of each row is 0; a number
// written there is added to all scores of the row. In the worker's memory until the next call.
float* ScaledQueries(const Tile& tile);

// Converts ScaledQueries to the operand type of their product with the keys.
const void* QueryOperand(const Tile& tile, const float* scaled_queries);

// context (+)= weights [height, chunk.columns] · values. With `factors` [height], each row of the weights is multiplied
// by its factor before it is rounded; they must be null for operands that are not rounded.
void AddContext(const Tile& tile, const KeyChunk& chunk, const float* weights, const double* factors, bool is_first,
                float* context);

// True if AttendFusedExp can compute the call: only lengths and diagonals hide keys, nothing changes the scores between
// product and softmax, and the call does not request scores or weights.
bool CanUseFusedExp(const AttentionCall& call);

// Attention in one pass, with the exponential fused into the score product. By the Cauchy–Schwarz inequality no score
// of a query exceeds bound = |query| · |key|, where key is the longest key that the query sees. So exp(score − bound)
// is at most 1 and can be computed chunk by chunk, before the largest score is known. The sum of these weights divides
// the context at the end.
//
// Keys that a query does not see do not change its bits: the bound is that of the visible keys, and rows do not depend
// on each other. A row is unreliable if its scores are so far below the bound that the subtraction loses digits, or if
// a number is not finite or may be too large for float32.
//
// REQUIRES: CanUseFusedExp(tile.call).
TileResult AttendFusedExp(const Tile& tile);

// Attention in two passes, as in the formula: first all scores of the tile with soft cap, bias and mask, then softmax
// and context. Rows for which float32 has not enough range are computed in float64. Writes the extra outputs that
// concern scores and weights. No row is unreliable.
TileResult AttendTwoPass(const Tile& tile);

}  // namespace attention::server
