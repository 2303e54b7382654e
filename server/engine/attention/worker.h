#pragma once

#include "server/engine/attention/head_mask.h"
#include "server/engine/attention/head_operands.h"
#include "server/engine/kernels/buffer.h"
#include "server/engine/onednn/onednn.h"

namespace attention::server {

// The primitives and working memory of one thread. Everything is kept between tiles, so no memory is allocated once the
// buffers have grown to the lengths in use. Only the thread that created it may use it.
struct Worker {
  Onednn onednn;

  // Of a tile of a projection.
  Buffer gathered;  // [kTileRows, k], tokens as float32
  Buffer rows_in;   // [kTileRows, k], padded to a tile height
  Buffer operand;   // the same, or weights of a chunk, as rounded operands
  Buffer rows_out;  // [kTileRows, n], padded to a tile height
  Buffer outputs;   // [kTileRows, out_features]

  // Of a tile of one sequence and head.
  HeadOperands head;
  MaskScratch mask;
  Buffer query;    // [kTileRows, head_dim + 1], scaled
  Buffer scores;   // [kTileRows, columns] of one chunk of keys or of all
  Buffer capped;   // the same of one chunk, for the soft cap
  Buffer weights;  // [kTileRows, columns] of all chunks
  Buffer context;  // [kTileRows, value_head_dim]
  Buffer row;      // [kv_length]
};

}  // namespace attention::server
