#pragma once

#include <cstdint>

#include "server/engine/attention_mask.h"

namespace attention::server {

// Which shapes the primitives are made for. Each function looks at one request's own lengths and nothing else, so the
// same request always runs through the same primitives. Rounding lengths up to buckets keeps the set of primitives
// closed: making one costs as much as a hundred small requests.

// Rows that one primitive computes at most: enough to reach the speed of large matrices, few enough for the caches.
inline constexpr int64_t kTileRows = 64;

// Query tiles that share one packing of their keys and values, at most.
inline constexpr int64_t kTilesPerUnit = 16;

// As many as share one: fewer where diagonals cut the keys, for a unit computes the keys that any of its queries sees.
int64_t TilesPerUnit(const SequenceLimits& limits);

// Height of the primitive for a tile of `rows` rows: 4, 16, 32 or 64. REQUIRES: 1 <= rows <= kTileRows.
int64_t TileHeight(int64_t rows);

// Columns of the primitives for a sequence of `kv_length` keys: the next multiple of 16, from 256 on of an eighth of
// the power of two below, so that at most one column in eight is idle. REQUIRES: kv_length >= 1.
int64_t KeyBucket(int64_t kv_length);

}  // namespace attention::server
