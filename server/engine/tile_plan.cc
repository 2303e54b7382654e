#include "server/engine/tile_plan.h"

#include <algorithm>
#include <bit>

namespace attention::server {

int64_t TilesPerUnit(const SequenceLimits& limits) {
  const bool cut = limits.first_offset > -kUnbounded || limits.last_offset < kUnbounded;
  return cut ? 4 : kTilesPerUnit;
}

int64_t TileHeight(int64_t rows) {
  if (rows <= 4) return 4;
  if (rows <= 16) return 16;
  return rows <= 32 ? 32 : kTileRows;
}

int64_t KeyBucket(int64_t kv_length) {
  const auto power_below = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(kv_length)));
  const int64_t step = std::max<int64_t>(16, power_below / 8);
  return (kv_length + step - 1) / step * step;
}

}  // namespace attention::server
