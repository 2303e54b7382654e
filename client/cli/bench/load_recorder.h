#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "client/attention_client.h"

namespace attention::cli {

using LoadTime = std::chrono::steady_clock::time_point;

// One counted request that succeeded.
struct LoadSample {
  std::chrono::nanoseconds latency{0};
  Timing timing;
};

// What a load test saw. Requests that were sent during the warm-up are in none of it.
struct LoadResult {
  std::vector<LoadSample> samples;
  std::map<absl::StatusCode, int64_t> errors;
  absl::Status first_error;             // OK if there was none
  int64_t not_sent = 0;                 // due, but still waiting for room when the time was over (open loop only)
  std::chrono::nanoseconds elapsed{0};  // from the end of the warm-up to the last reply

  int64_t requests() const;  // samples and errors
};

// Collects the outcome of the requests of one load test while they are under way. Thread-safe.
class LoadRecorder {
 public:
  // Requests that are sent from `measure_start` on are counted.
  explicit LoadRecorder(LoadTime measure_start) : measure_start_(measure_start) {}

  // Says that a request is about to be sent.
  void Begin();

  // Says that a request has ended at `now`. Its latency counts from `due`.
  struct Times {
    LoadTime due, sent, now;
  };
  void End(const Times& times, const absl::StatusOr<AttendReply>& reply);

  void AddNotSent(int64_t count);

  // Waits until fewer than `limit` requests are under way.
  void WaitForRoom(int64_t limit);

  // How things stand, for the progress line.
  struct Progress {
    int64_t requests = 0;  // ended, with those of the warm-up
    int64_t errors = 0;    // among them
    int64_t in_flight = 0;
  };
  Progress progress() const;

  // REQUIRES: no request is under way, and none will be.
  LoadResult TakeResult();

 private:
  // Constant after construction.
  const LoadTime measure_start_;

  mutable absl::Mutex mu_;
  Progress progress_ ABSL_GUARDED_BY(mu_);
  LoadResult result_ ABSL_GUARDED_BY(mu_);
};

}  // namespace attention::cli
