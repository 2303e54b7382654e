#include "server/engine/tile_plan.h"

#include <algorithm>
#include <bit>

namespace attention::server {

int64_t NextTile(int64_t rows) { return rows >= 4 * kTileRows ? kTileRows : std::min<int64_t>(rows, 64); }

int64_t TileHeight(int64_t rows) {
  for (const int64_t height : {4, 8, 16, 32, 48, 64}) {
    if (rows <= height) return height;
  }
  return kTileRows;
}

int64_t ChunkKeys(const SequenceLimits& limits) {
  const bool has_diagonal = limits.first_offset > -kUnbounded || limits.last_offset < kUnbounded;
  return has_diagonal ? 128 : 512;
}

int64_t KeyBucket(int64_t keys) {
  const auto power_below = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(keys)));
  const int64_t step = std::max<int64_t>(16, power_below / 8);
  return (keys + step - 1) / step * step;
}

}  // namespace attention::server
