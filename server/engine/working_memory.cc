#include "server/engine/working_memory.h"

#include <limits>

#include "server/engine/attention.h"
#include "server/engine/tile_plan.h"

namespace attention::server {

int64_t WorkingBytes(const LayerShape& shape, const AttentionCall& call, int num_threads) {
  // In floating point, where a product of large sizes is rounded rather than wrong.
  constexpr double kFloatBytes = sizeof(float);
  const double tokens =
      static_cast<double>(call.batch) * (static_cast<double>(call.q_length) + static_cast<double>(call.kv_length));
  const double features = static_cast<double>(shape.qkv_features());
  // Queries have a context beside them, keys have values.
  const double projections = 2 * tokens * features * kFloatBytes;
  const int64_t pieces = call.q_length == 0 ? 0 : call.q_length / (kTilesPerUnit * kTileRows) + 1;
  const double units = static_cast<double>(call.batch) * static_cast<double>(shape.num_heads) *
                       static_cast<double>(pieces) * sizeof(AttentionUnit);
  const double keys = call.kv_length == 0 ? 0 : static_cast<double>(KeyBucket(call.kv_length));
  const double per_thread = keys * static_cast<double>(kTileRows + 3 * shape.head_dim) * kFloatBytes;
  const double bytes = projections + units + per_thread * num_threads;
  constexpr auto kMost = std::numeric_limits<int64_t>::max();
  return bytes < static_cast<double>(kMost) ? static_cast<int64_t>(bytes) : kMost;
}

}  // namespace attention::server
