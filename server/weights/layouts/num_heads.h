#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

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

}  // namespace attention::server
