#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "server/checkpoint/layer_parameters.h"
#include "server/engine/layer.h"

namespace attention::server {

// The parameters of one attention layer under a name. Immutable once published; whoever works with it holds a
// shared_ptr, so replacing or unloading a name never takes it from under running work.
struct WeightSet {
  std::string name;
  int64_t version = 0;                    // of the checkpoint, from 1
  std::string checkpoint;                 // what it came from
  std::shared_ptr<const Layer> layer;     // null: attention without projections
  std::string layout;                     // of the file: "flax", "torch", "bert" or "projections"
  std::vector<ParameterInfo> parameters;  // sorted by name
};

using WeightSetPtr = std::shared_ptr<const WeightSet>;

}  // namespace attention::server
