#pragma once

#include "server/engine/tile.h"

namespace attention::server {

// Attention as the formula says it: all scores of the tile, soft cap, bias and mask, softmax, context; and what the
// call wants to see of them. No row is unreliable.
TileResult AttendWithSoftmax(const Tile& tile);

}  // namespace attention::server
