#pragma once

#include "server/engine/attention/head_mask.h"
#include "server/engine/attention/head_operands.h"
#include "server/engine/kernels/buffer.h"
#include "server/engine/onednn/onednn.h"

namespace attention::server {

// What one thread computes with. Everything in it is kept between tiles, so the hot path allocates nothing once the
// buffers have grown to the lengths that are served. Belongs to the thread that made it.
struct Worker {
  Onednn onednn;

  // Tiles of at most kTileRows rows.
  Buffer gathered;  // [kTileRows, k], converted tokens
  Buffer rows_in;   // [kTileRows, k] of a matmul
  Buffer operand;   // the same, or scores, as operands of another type
  Buffer rows_out;  // [kTileRows, n] of a matmul
  Buffer outputs;   // [kTileRows, out_features]

  // One sequence and head.
  HeadOperands head;
  MaskScratch mask;
  Buffer query;    // [kTileRows, head_dim + 1], scaled
  Buffer scores;   // [kTileRows, columns] of one chunk of keys, or of all
  Buffer capped;   // the same of one chunk, with a soft cap
  Buffer weights;  // [kTileRows, columns] of all chunks
  Buffer context;  // [kTileRows, value_head_dim]
  Buffer row;      // [kv_length]
};

}  // namespace attention::server
