#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "server/weights/layouts/layer_parts.h"
#include "server/weights/layouts/layers.h"

namespace attention::server {

// The names of a self-test's tensors below a layer's PATH.
extern const PartNames kSelfTestNames;

// Checks a self-test against the shape of its layer and sets layer.self_test. INVALID_ARGUMENT as FindLayers, also for
// a tolerance in the metadata that is no number from 0.
absl::Status ReadSelfTest(const LayerParts& parts, const std::map<std::string, std::string>& metadata,
                          LayerTensors& layer);

}  // namespace attention::server
