#pragma once

#include "absl/status/status.h"
#include "server/weights/layouts/layers.h"

namespace attention::server {

// Checks the dtypes and shapes of one layer in the flax layout, each by itself and against the others, as
// attention.v1.WeightService documents them. INVALID_ARGUMENT with the parameter, the wanted and the found shape.
// REQUIRES: the four kernels are there, and both LayerNorms or neither.
absl::Status CheckFlaxShapes(const LayerTensors& layer);

}  // namespace attention::server
