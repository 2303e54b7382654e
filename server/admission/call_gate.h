#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace attention::server {

// The status of every call that a stopping server rejects.
inline absl::Status StoppingError() { return absl::UnavailableError("server: the server is stopping"); }

// Counts the calls in progress, and rejects new ones once the server stops. gRPC's own shutdown cannot do this: it also
// waits for calls that never end by themselves, such as watchers of the health service and idle streams. Thread-safe.
class CallGate {
 public:
  // One admitted call, counted until the pass is destroyed. Must not outlive the gate.
  class Pass {
   public:
    explicit Pass(CallGate* gate) : gate_(gate) {}
    Pass(Pass&& other) noexcept : gate_(std::exchange(other.gate_, nullptr)) {}
    Pass& operator=(Pass&& other) noexcept {
      std::swap(gate_, other.gate_);
      return *this;
    }
    ~Pass() {
      if (gate_ != nullptr) gate_->Leave();
    }

   private:
    CallGate* gate_;
  };

  // Admits a call. Returns nothing once CloseAndWait was called; the call then ends with StoppingError().
  std::optional<Pass> Enter() {
    absl::MutexLock lock(&mu_);
    if (closed_) return std::nullopt;
    ++active_calls_;
    return Pass(this);
  }

  // Rejects all later calls, and waits until every pass is destroyed. Returns false if passes are left at `deadline`.
  bool CloseAndWait(absl::Time deadline) {
    absl::MutexLock lock(&mu_);
    closed_ = true;
    return mu_.AwaitWithDeadline(absl::Condition(this, &CallGate::idle), deadline);
  }

 private:
  void Leave() {
    absl::MutexLock lock(&mu_);
    --active_calls_;
  }

  bool idle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return active_calls_ == 0; }

  absl::Mutex mu_;
  int64_t active_calls_ ABSL_GUARDED_BY(mu_) = 0;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace attention::server
