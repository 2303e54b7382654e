#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "server/weights/catalog.h"
#include "server/weights/registry.h"

namespace attention::server {

// RESOURCE_EXHAUSTED if `fresh_bytes` of new weight sets of a checkpoint do not fit below `max_weight_bytes` (flag
// --max-weight-bytes) beside `kept` of its versions and all that other checkpoints serve. Layers that several versions
// share count once.
absl::Status CheckWeightBytes(const Registry& registry, const CatalogEntry& kept, int64_t fresh_bytes,
                              int64_t max_weight_bytes);

}  // namespace attention::server
