#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "client/attention_client.h"

namespace attention::cli {

using LoadTime = std::chrono::steady_clock::time_point;

// A clock that tests can replace.
class LoadClock {
 public:
  virtual ~LoadClock() = default;
  virtual LoadTime Now() = 0;
  virtual void SleepUntil(LoadTime time) = 0;
};

class SteadyLoadClock : public LoadClock {
 public:
  LoadTime Now() override { return std::chrono::steady_clock::now(); }
  void SleepUntil(LoadTime time) override;
};

// One counted request that succeeded.
struct LoadSample {
  std::chrono::nanoseconds latency{0};
  Timing timing;
};

// The outcome of a load test, without the requests that were sent during the warm-up.
struct LoadResult {
  std::vector<LoadSample> samples;
  std::map<absl::StatusCode, int64_t> errors;
  std::vector<std::chrono::nanoseconds> error_latencies;
  absl::Status first_error;             // OK if there was none
  int64_t not_sent = 0;                 // open loop: requests that were due, but still waiting to be sent at the end
  std::chrono::nanoseconds elapsed{0};  // from the end of the warm-up to the last reply

  int64_t requests() const;  // samples and errors
};

// Collects the outcome of the requests of one load test. Thread-safe.
class LoadRecorder {
 public:
  // Counts the requests that are sent at `measure_start` or later.
  explicit LoadRecorder(LoadTime measure_start) : measure_start_(measure_start) {}

  // Call before a request is sent.
  void Begin();

  // Call when a request has ended, at `now`. Its latency counts from `due`.
  struct Times {
    LoadTime due, sent, now;
  };
  void End(const Times& times, const absl::StatusOr<AttendReply>& reply);

  void AddNotSent(int64_t count);

  // Blocks until fewer than `limit` requests are in flight.
  void WaitForRoom(int64_t limit);

  struct Progress {
    int64_t requests = 0;  // ended, including those of the warm-up
    int64_t errors = 0;    // part of `requests`
    int64_t in_flight = 0;
  };
  Progress progress() const;

  // REQUIRES: all requests have ended.
  LoadResult TakeResult();

 private:
  // Constant after construction.
  const LoadTime measure_start_;

  mutable absl::Mutex mu_;
  Progress progress_ ABSL_GUARDED_BY(mu_);
  LoadResult result_ ABSL_GUARDED_BY(mu_);
};

// The amount of load, and its duration.
struct LoadPlan {
  LoadTime start;
  LoadTime measure_start;    // requests that are sent earlier are not counted
  LoadTime end;              // no request is due at this time or later
  int64_t max_requests = 0;  // limit of counted requests; 0 = none
  int64_t concurrency = 1;   // requests in flight: exactly (closed loop), at most (open loop)
  double rate = 0;           // requests per second, open loop only
};

// Sends request number `index`, and calls `done` once, on any thread, possibly before it returns. Every request must
// end at some time.
using LoadDone = std::function<void(const absl::StatusOr<AttendReply>& reply)>;
using SendRequest = std::function<void(int64_t index, LoadDone done)>;

// Keeps `concurrency` requests in flight until the plan ends; returns when the last request has ended. A request is due
// when it is sent.
void RunClosedLoop(const LoadPlan& plan, const SendRequest& send, LoadClock& clock, LoadRecorder& recorder);

// Sends request i at start + i / rate, or later as soon as fewer than `concurrency` are in flight, until the plan ends;
// returns when the last request has ended. Requests that are still waiting at the end are counted as not sent.
void RunOpenLoop(const LoadPlan& plan, const SendRequest& send, LoadClock& clock, LoadRecorder& recorder);

}  // namespace attention::cli
