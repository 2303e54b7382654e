#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace attention::server {

// Lets calls in until the server stops, and waits for those that are inside. gRPC would wait too, but also for calls
// that never end by themselves: watchers of the health service, and streams that nobody writes to. Thread-safe.
class CallGate {
 public:
  // Held by a call as long as a stop should wait for it. Must not outlive the gate.
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

  // Nothing once the gate was closed: the call then ends with Closed().
  std::optional<Pass> Enter();

  // UNAVAILABLE.
  static absl::Status Closed() { return absl::UnavailableError("the server is stopping"); }

  // Lets nobody in any more, and waits until all passes are back. False if some are still out at `deadline`.
  bool CloseAndWait(absl::Time deadline);

 private:
  void Leave();
  bool empty() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return inside_ == 0; }

  absl::Mutex mu_;
  int64_t inside_ ABSL_GUARDED_BY(mu_) = 0;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace attention::server
