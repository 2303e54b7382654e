#pragma once

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace attention::server {

// Runs `body` and returns its status. An exception becomes a status whose text tells callers nothing about the inside:
// std::bad_alloc RESOURCE_EXHAUSTED, any other INTERNAL; what the exception says goes to the log, after `what`, which
// names the work in a few words. This is where every exception of oneDNN and of allocation ends.
absl::Status CatchExceptions(const char* what, absl::FunctionRef<absl::Status()> body);

}  // namespace attention::server
