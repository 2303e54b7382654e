#pragma once

#include <array>
#include <cstdint>

#include "absl/types/span.h"
#include "server/engine/attention/head_mask.h"
#include "server/engine/attention/head_operands.h"
#include "server/engine/attention/row_outputs.h"
#include "server/engine/attention/worker.h"
#include "server/engine/attention_call.h"
#include "server/engine/attention_mask.h"
#include "server/engine/onednn/tile_shapes.h"

namespace attention::server {

// Some queries of one sequence and head, at most kTileRows, and what they are computed with. The keys and values are in
// worker.head. Points to what it was made from.
struct Tile {
  const AttentionCall& call;
  const HeadRows queries;
  const HeadMask& mask;
  const RowOutputs& outputs;
  Worker& worker;
  int64_t first_query = 0;
  int64_t rows = 0;
  KeyRange keys;  // all that its queries can see; not empty

  int64_t height() const { return TileHeight(rows); }
  DType operands() const { return call.options.compute_dtype; }

  // Those chunks of worker.head that hold keys of the tile.
  absl::Span<const KeyChunk> chunks() const;
};

// What became of each row of a tile.
struct TileResult {
  enum class Row : uint8_t {
    kDone,
    kSeesNoKey,   // neither context nor log_sum_exp
    kUnreliable,  // has to be computed in another way
  };

  float* context = nullptr;                   // [height, value_head_dim], in the worker's memory
  std::array<double, kTileRows> factors;      // the context of a row, times its factor, is its context
  std::array<double, kTileRows> log_sum_exp;  // if the call wants it
  std::array<Row, kTileRows> rows{};
};

// The queries of a tile, scaled: [height, head_dim + 1], the last number of each 0, to be added to all scores of its
// row. In the worker's memory until the next call.
float* ScaledQueries(const Tile& tile);

// The same as the product with worker.head's keys takes it.
const void* QueryOperand(const Tile& tile, const float* scaled_queries);

// context (+)= weights [height, chunk.columns] · values, each row of the weights times its factor [height] if there are
// any. Factors are for operands that are rounded, whose weights have to be right before.
void AddContext(const Tile& tile, const KeyChunk& chunk, const float* weights, const double* factors, bool is_first,
                float* context);

// True if AttendBounded can compute the call: lengths and diagonals alone hide keys, nothing changes the scores before
// the softmax, and nobody wants to see scores or weights.
bool IsBounded(const AttentionCall& call);

// Attention without a pass for the softmax. By Cauchy and Schwarz no score of a query passes bound = |query| · |key|,
// with the longest key that the query sees; so exp(score − bound) is at most 1, and can be taken by the product of
// query and keys itself, chunk by chunk, without knowing the largest score. The sum of these weights divides the
// context at the end.
//
// What a query does not see changes no bit of it: the bound is that of the keys that it sees, and no row depends on
// another. A row is unreliable where the scores lie so far below the bound that subtracting it costs digits, and where
// a number is not finite.
//
// REQUIRES: IsBounded.
TileResult AttendBounded(const Tile& tile);

// Attention as the formula says it: all scores of the tile, soft cap, bias and mask, softmax, context; and what the
// call wants to see of them. No row is unreliable.
TileResult AttendWithSoftmax(const Tile& tile);

}  // namespace attention::server
