#pragma once

#include "absl/status/status.h"
#include "server/weights/layers.h"

namespace attention::server {

// Checks the dtypes and shapes of one layer, each by itself and against the others, as attention.v1.WeightService
// documents them. INVALID_ARGUMENT with the parameter, the wanted and the found shape. REQUIRES: the four kernels are
// there, and both LayerNorms or neither.
absl::Status CheckLayer(const LayerTensors& layer);

// The sizes of a layer that CheckLayer accepts.
LayerShape ShapeOf(const LayerTensors& layer);

}  // namespace attention::server
