#include "server/engine/onednn/tile_shapes.h"

#include <algorithm>
#include <bit>
#include <iterator>

namespace attention::server {

int64_t NextTile(int64_t rows) { return rows >= 4 * kTileRows ? kTileRows : std::min<int64_t>(rows, 64); }

int64_t TileHeight(int64_t rows) { return *std::lower_bound(std::begin(kTileHeights), std::end(kTileHeights), rows); }

int64_t ChunkKeys(const SequenceLimits& limits) {
  const bool has_diagonal = limits.first_offset > -kUnbounded || limits.last_offset < kUnbounded;
  if (!has_diagonal) return kMostChunkKeys;
  return limits.kv_length < 2048 ? 128 : 256;
}

int64_t KeyBucket(int64_t keys) {
  const auto power_below = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(keys)));
  const int64_t step = std::max<int64_t>(16, power_below / 8);
  return (keys + step - 1) / step * step;
}

}  // namespace attention::server
