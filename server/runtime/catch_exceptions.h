#pragma once

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace attention::server {

// Runs `body` and returns its status. Turns an exception into a status with a fixed text, so callers learn nothing
// about the server's internals: std::bad_alloc into RESOURCE_EXHAUSTED, any other into INTERNAL. The exception's own
// text is logged after `what`, which names the work: "packing a layer". All exceptions of oneDNN, of the allocator and
// of the standard library are caught here.
absl::Status CatchExceptions(absl::string_view what, absl::FunctionRef<absl::Status()> body);

}  // namespace attention::server
