#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace attention::server {

// Foreign text (a name from a request or a file) as an error message may repeat it: printable ASCII, everything else
// escaped, cut to at most 100 characters, of which the last three are dots if it was longer.
std::string Echo(absl::string_view text);

}  // namespace attention::server
