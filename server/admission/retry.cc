#include "server/admission/retry.h"

#include <string>

#include "absl/random/random.h"
#include "absl/strings/cord.h"

namespace attention::server {
namespace {

constexpr char kPayload[] = "attention/retry-after";

}  // namespace

absl::Status WithRetryAfter(absl::Status status, absl::Duration wait) {
  thread_local absl::InsecureBitGen random;
  if (wait != kNeverRetry) wait *= absl::Uniform(random, 1.0, 1.25);
  status.SetPayload(kPayload, absl::Cord(absl::FormatDuration(wait)));
  return status;
}

std::optional<absl::Duration> RetryAfter(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kPayload);
  absl::Duration wait;
  if (!payload || !absl::ParseDuration(std::string(*payload), &wait)) return std::nullopt;
  return wait;
}

}  // namespace attention::server
