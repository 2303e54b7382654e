#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/attention_client.h"
#include "client/cli/bench/bench_inputs.h"
#include "client/cli/bench/load_generator.h"

namespace attention::cli {

// The calls whose times are set against one another. Each waits for its reply.
struct BreakdownCalls {
  std::function<absl::Status()> empty;    // next to no bytes, nothing to do: what every call costs
  std::function<absl::Status()> refused;  // the request, as many bytes of it, which the server reads and refuses
  std::function<absl::StatusOr<AttendReply>()> request;
};

// A health check; and the request, also for a version that no server serves. Points to `request`, which must stay.
BreakdownCalls CallsOf(const Client& client, const AttendRequest& request, const CallOptions& options);

// How long they took.
struct BreakdownTimes {
  std::vector<std::chrono::nanoseconds> empty, refused;
  std::vector<LoadSample> requests;
};

// Makes the calls until the plan ends, whose `concurrency` and `rate` have no part in it. The kinds of calls alternate,
// so that a machine which is slow for a while is slow for all of them. The first error ends it.
absl::StatusOr<BreakdownTimes> MeasureBreakdown(const LoadPlan& plan, const BreakdownCalls& calls, LoadClock& clock);

// Medians: where the time of the request goes, and how it stands to the empty call and the engine's own time. As a
// table for people, and as one JSON object, every duration in nanoseconds. REQUIRES: at least one call of each kind.
std::string BreakdownText(const BenchOptions& options, const BreakdownTimes& times);
std::string BreakdownJson(const BenchOptions& options, const BreakdownTimes& times);

}  // namespace attention::cli
