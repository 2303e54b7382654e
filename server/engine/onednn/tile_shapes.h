#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <iterator>

#include "server/engine/attention_mask.h"

// The shapes of the primitives. Each function depends on the lengths of one request only, so a request always uses the
// same primitives and gets the same bits. Rounding lengths up keeps the set of primitives small enough to create them
// all when a layer is loaded: creating one takes as long as a hundred small requests.
namespace attention::server {

// Most rows of a tile: enough to amortize reading kernels, keys and values, and few enough that a tile of scores stays
// in the second-level cache.
inline constexpr int64_t kTileRows = 128;

// Rows of the next tile if `rows` are left to compute: 128; 64 if few are left, so that threads finish together; the
// rest at the end. REQUIRES: rows >= 1.
inline int64_t NextTile(int64_t rows) { return rows >= 4 * kTileRows ? kTileRows : std::min<int64_t>(rows, 64); }

// The heights of the primitives for tiles, and the smallest height for a tile of `rows` rows.
// REQUIRES: 1 <= rows <= kTileRows.
inline constexpr int64_t kTileHeights[] = {4, 8, 16, 32, 48, 64, kTileRows};
inline int64_t TileHeight(int64_t rows) {
  return *std::lower_bound(std::begin(kTileHeights), std::end(kTileHeights), rows);
}

// Most queries of an AttentionUnit, for which the keys and values of a head are read once.
inline constexpr int64_t kUnitQueries = 1024;

// Most keys of a chunk, whose scores are computed by one matmul. Keys, values and a tile of scores of a chunk stay in
// the second-level cache. Under diagonals chunks are smaller, so that fewer hidden scores are computed.
inline constexpr int64_t kMaxChunkKeys = 512;
inline int64_t ChunkKeys(const SequenceLimits& limits) {
  const bool has_diagonal = limits.first_offset > -kUnbounded || limits.last_offset < kUnbounded;
  if (!has_diagonal) return kMaxChunkKeys;
  return limits.kv_length < 2048 ? 128 : 256;
}

// Columns of the primitives for `keys` keys: the next multiple of 16; from 256 keys of 32; from 512 keys of an eighth
// of the largest power of two that is not above `keys`. REQUIRES: keys >= 1.
inline int64_t KeyBucket(int64_t keys) {
  const auto power = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(keys)));
  const int64_t step = std::max<int64_t>(16, power / 8);
  return (keys + step - 1) / step * step;
}

}  // namespace attention::server
