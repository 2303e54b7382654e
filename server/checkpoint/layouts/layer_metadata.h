#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/checkpoint/layouts/layers.h"
#include "server/checkpoint/layouts/layout.h"

namespace attention::server {

// What a file states about a layer besides its parameters: the number of heads and a self-test.

// The head counts in the metadata of a file: "num_heads", and PATH.num_heads or PATH/num_heads for single layers.
class HeadCounts {
 public:
  // `requested`: the number in the request, which overrides the metadata; 0 if the request has none.
  HeadCounts(const std::map<std::string, std::string>& metadata, int64_t requested);

  // The number of heads of the layer whose path is LayerParts::path(). INVALID_ARGUMENT, with all ways to state it, if
  // it is unknown; or if it is not an integer of at least 1.
  absl::StatusOr<int64_t> Of(absl::string_view path) const;

 private:
  const int64_t requested_;
  std::map<std::string, std::string> counts_;  // by key, with slashes
};

// The names of the tensors of a self-test below the PATH of a layer.
extern const PartNames kSelfTestNames;

// Checks a self-test against the shape of its layer and sets layer.self_test. INVALID_ARGUMENT as FindLayers, and for a
// tolerance in the metadata that is not a number of at least 0.
absl::Status ReadSelfTest(const LayerParts& parts, const std::map<std::string, std::string>& metadata,
                          LayerTensors& layer);

}  // namespace attention::server
