#include "server/engine/stop_token.h"

#include "absl/strings/str_cat.h"

namespace attention::server {

absl::Status StopToken::Check(absl::Time now) const {
  // The deadline first, because gRPC cancels a call whose deadline has passed.
  if (deadline_ <= now) {
    return absl::DeadlineExceededError(
        absl::StrCat("deadline: passed ", absl::FormatDuration(now - deadline_), " before the computation ended"));
  }
  if (cancelled()) return absl::CancelledError("call: cancelled before the computation ended");
  if (ServerStops()) return absl::UnavailableError("server: the grace time ended before the computation");
  return absl::OkStatus();
}

}  // namespace attention::server
