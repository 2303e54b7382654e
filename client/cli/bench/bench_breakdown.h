#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/attention_client.h"
#include "client/cli/bench/load_generator.h"
#include "client/cli/options.h"

namespace attention::cli {

// The calls whose times are compared. Each blocks until its reply.
struct BreakdownCalls {
  std::function<absl::Status()> empty;    // a few bytes and no work: the cost of any call
  std::function<absl::Status()> refused;  // the same bytes as the request; the server parses and refuses them
  std::function<absl::StatusOr<AttendReply>()> request;
};

// A health check, the request for a version that no server has, and the request. Points to `request`, which must
// outlive the calls.
BreakdownCalls CallsOf(const Client& client, const AttendRequest& request, const CallOptions& options);

// The durations of these calls.
struct BreakdownTimes {
  std::vector<std::chrono::nanoseconds> empty, refused;
  std::vector<LoadSample> requests;
};

// Makes the calls, one at a time, until the plan ends; its `concurrency` and `rate` are not used. The kinds of calls
// alternate, so that a slow phase of the machine affects all of them. Ends at the first error.
absl::StatusOr<BreakdownTimes> MeasureBreakdown(const LoadPlan& plan, const BreakdownCalls& calls, LoadClock& clock);

// The parts of the time of the request, as medians, and its ratio to the time of the empty call and the engine: as a
// table, and as one JSON object with durations in nanoseconds. REQUIRES: at least one call of each kind.
std::string BreakdownText(const BenchOptions& options, const BreakdownTimes& times);
std::string BreakdownJson(const BenchOptions& options, const BreakdownTimes& times);

}  // namespace attention::cli
