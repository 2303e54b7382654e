#pragma once

#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"

// When a rejected call may be sent again. A status without this advice leaves it to the client's own back-off.
namespace attention::server {

// No retry can help: by then the deadline of the call has passed.
inline constexpr absl::Duration kNeverRetry = absl::InfiniteDuration();

// Advises to wait about `wait`. A random part of up to a quarter is added, so that clients that were rejected together
// do not come back together.
absl::Status WithRetryAfter(absl::Status status, absl::Duration wait);

// The advice of a status, if it has one.
std::optional<absl::Duration> RetryAfter(const absl::Status& status);

}  // namespace attention::server
