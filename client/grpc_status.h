#pragma once

#include <grpcpp/support/status.h>

#include <string>

#include "absl/status/status.h"

namespace attention {

// The status with a canonical code as it travels in an integer, and its text. A number that is no canonical code
// becomes UNKNOWN, and the text says which it was.
absl::Status ToAbslStatus(int code, const std::string& message);

absl::Status ToAbslStatus(const grpc::Status& status);

}  // namespace attention
