#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace attention::server {

// The status of every call that a stopping server rejects.
inline absl::Status StoppingError() { return absl::UnavailableError("server: the server is stopping"); }

class Admission;

// What one call holds of the server, from its entry until gRPC has sent its reply: it counts as active, and its memory
// is reserved. Everything is given back when the ticket is destroyed. Move-only; a default-constructed ticket holds
// nothing. Not thread-safe, but may be destroyed on any thread. Must not outlive its Admission.
class Ticket {
 public:
  Ticket() = default;
  Ticket(Ticket&& other) noexcept
      : admission_(std::exchange(other.admission_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Ticket& operator=(Ticket&& other) noexcept {
    std::swap(admission_, other.admission_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Ticket();

  // Reserves memory in addition to what the ticket holds, before the caller allocates it. REQUIRES: bytes >= 0, and the
  // ticket is not empty.
  //   UNAVAILABLE         other calls hold too much: retry later
  //   RESOURCE_EXHAUSTED  this call alone would exceed the limit: do not retry
  absl::Status Reserve(int64_t bytes);

  int64_t bytes() const { return bytes_; }

 private:
  friend class Admission;
  explicit Ticket(Admission* admission) : admission_(admission) {}

  Admission* admission_ = nullptr;
  int64_t bytes_ = 0;
};

// The entry of every call. Counts the active calls, limits the memory that they hold together, and rejects new ones
// once the server stops. gRPC's own shutdown cannot do the last: it also waits for calls that never end by themselves,
// such as watchers of the health service and idle streams. Thread-safe.
class Admission {
 public:
  struct Stats {
    int64_t calls = 0;
    int64_t bytes = 0;
  };

  // `max_inflight_bytes` is the limit of the memory that all tickets hold.
  explicit Admission(int64_t max_inflight_bytes) : max_bytes_(max_inflight_bytes) {}
  Admission(const Admission&) = delete;
  Admission& operator=(const Admission&) = delete;

  // Admits a call whose message takes `message_bytes` of memory. UNAVAILABLE once CloseAndWait was called; else the
  // errors of Ticket::Reserve.
  absl::StatusOr<Ticket> Enter(int64_t message_bytes);

  // Rejects all later calls, and waits until every ticket is destroyed, at most for `timeout`. Returns false if tickets
  // are left then.
  bool CloseAndWait(absl::Duration timeout);

  // Ends the computations of all calls whose StopToken was given stopped().
  void StopComputations() { stopped_.store(true, std::memory_order_relaxed); }
  const std::atomic<bool>* stopped() const { return &stopped_; }

  int64_t max_bytes() const { return max_bytes_; }
  Stats stats() const;

 private:
  friend class Ticket;

  absl::Status Reserve(int64_t held, int64_t bytes);
  void Leave(int64_t bytes);
  bool idle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return calls_ == 0; }

  const int64_t max_bytes_;
  std::atomic<int64_t> bytes_ = 0;
  std::atomic<bool> stopped_ = false;

  mutable absl::Mutex mu_;
  int64_t calls_ ABSL_GUARDED_BY(mu_) = 0;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace attention::server
