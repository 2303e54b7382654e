#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/checkpoint/layouts/layer_parts.h"
#include "server/checkpoint/layouts/layers.h"

namespace attention::server {

// The heads that a file's metadata tells of: "num_heads", and PATH.num_heads or PATH/num_heads for single layers.
class HeadCounts {
 public:
  // `asked`: what the call says, which beats the metadata; 0 if it says nothing.
  HeadCounts(const std::map<std::string, std::string>& metadata, int64_t asked);

  // Those of the layer whose path is LayerParts::path(). INVALID_ARGUMENT, with all the ways to say it, if nobody says
  // it; or if it is no number from 1.
  absl::StatusOr<int64_t> Of(absl::string_view path) const;

 private:
  const int64_t asked_;
  std::map<std::string, std::string> counts_;  // by key, with slashes
};

// The names of a self-test's tensors below a layer's PATH.
extern const PartNames kSelfTestNames;

// Checks a self-test against the shape of its layer and sets layer.self_test. INVALID_ARGUMENT as FindLayers, also for
// a tolerance in the metadata that is no number from 0.
absl::Status ReadSelfTest(const LayerParts& parts, const std::map<std::string, std::string>& metadata,
                          LayerTensors& layer);

}  // namespace attention::server
