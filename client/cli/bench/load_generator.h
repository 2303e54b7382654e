#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "client/attention_client.h"
#include "client/cli/bench/load_recorder.h"

namespace attention::cli {

// Time, so that a test can say what it is.
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

// How much load, and for how long. Whoever runs it sees to it that every request ends some time.
struct LoadPlan {
  LoadTime start;
  LoadTime measure_start;    // requests that are sent before are not counted
  LoadTime end;              // none is due at or after it
  int64_t max_requests = 0;  // of those that count; 0 = no bound
  int64_t concurrency = 1;   // requests in flight: exactly (closed loop), at most (open loop)
  double rate = 0;           // requests a second, open loop only
};

// Sends the request number `index` and calls `done` once, on any thread, also before it returns.
using LoadDone = std::function<void(const absl::StatusOr<AttendReply>& reply)>;
using SendRequest = std::function<void(int64_t index, LoadDone done)>;

// Keeps `concurrency` requests in flight until the plan ends; returns when the last one has. A request is due when
// it is sent.
void RunClosedLoop(const LoadPlan& plan, const SendRequest& send, LoadClock& clock, LoadRecorder& recorder);

// Sends the request number i at start + i / rate, or as soon after that as there is room, until the plan ends; returns
// when the last one has ended. Those which found no room until then are counted as not sent.
void RunOpenLoop(const LoadPlan& plan, const SendRequest& send, LoadClock& clock, LoadRecorder& recorder);

}  // namespace attention::cli
