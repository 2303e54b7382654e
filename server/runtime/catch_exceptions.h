#pragma once

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace attention::server {

// Runs `body` and returns its status. An exception becomes a status whose text tells callers nothing about the inside:
// std::bad_alloc RESOURCE_EXHAUSTED, any other INTERNAL. What it says goes to the log, behind `what`, which names the
// work that failed. All exceptions of oneDNN, of allocation and of the standard library end here.
absl::Status CatchExceptions(absl::string_view what, absl::FunctionRef<absl::Status()> body);

}  // namespace attention::server
