#pragma once

#include <array>
#include <cstdint>

#include "absl/types/span.h"
#include "server/engine/attention_call.h"
#include "server/engine/attention_mask.h"
#include "server/engine/head_mask.h"
#include "server/engine/head_operands.h"
#include "server/engine/row_outputs.h"
#include "server/engine/tile_plan.h"
#include "server/engine/worker.h"

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

}  // namespace attention::server
