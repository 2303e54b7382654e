#pragma once

#include "server/engine/buffer.h"
#include "server/engine/onednn.h"

namespace attention::server {

// What one thread computes with. Everything in it is kept between tiles, so the hot path allocates nothing once the
// buffers have grown to the lengths that are served. Belongs to the thread that made it.
struct Worker {
  Onednn onednn;

  // Tiles of at most kTileRows rows.
  Buffer gathered;  // [kTileRows, k], converted tokens
  Buffer rows_in;   // [kTileRows, k] of a matmul
  Buffer rows_out;  // [kTileRows, n] of a matmul
  Buffer outputs;   // [kTileRows, out_features]

  // One sequence and head.
  Buffer query;          // [kTileRows, head_dim], scaled
  Buffer keys;           // [KeyBucket(kv_length), head_dim]; after packing it is used for the values
  Buffer packed_keys;    // [head_dim, KeyBucket(kv_length)]
  Buffer packed_values;  // [KeyBucket(kv_length), head_dim]
  Buffer scores;         // [kTileRows, KeyBucket(kv_length)]
  Buffer context;        // [kTileRows, head_dim]
};

}  // namespace attention::server
