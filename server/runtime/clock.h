#pragma once

#include "absl/time/time.h"

namespace attention::server {

// The time on a clock that is never set: the wall clock when the process started, plus the time that has passed
// since. All deadlines and waits inside the server use it, so that a correction of the wall clock ends no call.
absl::Time SteadyNow();

}  // namespace attention::server
