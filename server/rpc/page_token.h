#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace attention::server {

// The last weight set of a page. A list goes on behind it, whatever came and went meanwhile: nothing is kept between
// two pages.
struct PageEnd {
  std::string name;
  int64_t version = 0;
};

std::string MakePageToken(const PageEnd& end);

// INVALID_ARGUMENT for a text that MakePageToken does not make.
absl::StatusOr<PageEnd> ParsePageToken(absl::string_view token);

}  // namespace attention::server
