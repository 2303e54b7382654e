#pragma once

#include <cstdint>

#include "server/engine/attention_mask.h"

namespace attention::server {

// Which shapes the primitives are made for. Each function looks at one request's own lengths and nothing else, so the
// same request always runs through the same primitives. Rounding lengths up to buckets keeps the set of primitives
// closed: making one costs as much as a hundred small requests.

// Rows that one primitive computes at most: so many that what it reads of kernels, keys and values pays, few enough
// that a tile of scores stays in the second-level cache.
inline constexpr int64_t kTileRows = 128;

// Rows of the next tile where `rows` are left to compute: 128, or 64 where few are left, so that threads end together,
// and at the end the rest. REQUIRES: rows >= 1.
int64_t NextTile(int64_t rows);

// Heights of the primitives for tiles, and that for a tile of `rows` rows. REQUIRES: 1 <= rows <= kTileRows.
inline constexpr int64_t kTileHeights[] = {4, 8, 16, 32, 48, 64, kTileRows};
int64_t TileHeight(int64_t rows);

// Queries that share one packing of their keys and values.
inline constexpr int64_t kUnitQueries = 1024;

// Keys whose scores are computed at once, at most: so many that they, their values and a tile of their scores stay in
// the second-level cache; fewer where diagonals cut the keys, so that little is computed in vain.
inline constexpr int64_t kMostChunkKeys = 512;
int64_t ChunkKeys(const SequenceLimits& limits);

// Columns of the primitives for `keys` keys: the next multiple of 16, from 256 on of 32, from 512 on of an eighth of
// the power of two below. REQUIRES: keys >= 1.
int64_t KeyBucket(int64_t keys);

}  // namespace attention::server
