#pragma once

#include <atomic>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/runtime/clock.h"

namespace attention::server {

// Says whether the computation of a call should end early: its caller cancelled it, its deadline has passed, or the
// server stops. The compute threads poll it between pieces of work that take well below a millisecond; what they skip
// is undefined, so the call must end with the status of Check. Once it says stop it never says otherwise. Thread-safe.
class StopToken {
 public:
  // `deadline` is a time of SteadyNow. `server_stops` ends all calls of a server once it is true; may be null.
  explicit StopToken(absl::Time deadline = absl::InfiniteFuture(), const std::atomic<bool>* server_stops = nullptr)
      : deadline_(deadline), server_stops_(server_stops) {}

  StopToken(const StopToken&) = delete;
  StopToken& operator=(const StopToken&) = delete;

  void Cancel() { cancelled_.store(true, std::memory_order_relaxed); }

  absl::Time deadline() const { return deadline_; }
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }

  // DEADLINE_EXCEEDED, CANCELLED or UNAVAILABLE if the call should end at `now`, which is a time of SteadyNow.
  absl::Status Check(absl::Time now) const;

  // The same question for the compute threads.
  bool ShouldStop() const { return cancelled() || ServerStops() || (has_deadline() && SteadyNow() >= deadline_); }

 private:
  bool has_deadline() const { return deadline_ != absl::InfiniteFuture(); }
  bool ServerStops() const { return server_stops_ != nullptr && server_stops_->load(std::memory_order_relaxed); }

  const absl::Time deadline_;
  const std::atomic<bool>* const server_stops_;
  std::atomic<bool> cancelled_ = false;
};

}  // namespace attention::server
