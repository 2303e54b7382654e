#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "server/checkpoint/layer_parameters.h"
#include "server/engine/layer.h"

namespace attention::server {

// A named attention layer. Immutable after it is published. Each user holds a shared_ptr, so replacing or unloading a
// name does not affect running requests.
struct WeightSet {
  std::string name;
  int64_t version = 0;                    // of the checkpoint, from 1
  std::string checkpoint;                 // the checkpoint that contains it
  std::shared_ptr<const Layer> layer;     // nullptr: attention without projections
  std::string layout;                     // of the file: "flax", "torch", "bert" or "projections"
  std::vector<ParameterInfo> parameters;  // sorted by name
};

using WeightSetPtr = std::shared_ptr<const WeightSet>;

}  // namespace attention::server
