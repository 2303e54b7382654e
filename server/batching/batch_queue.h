#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/admission/byte_budget.h"
#include "server/batching/batch_policy.h"
#include "server/batching/lanes.h"
#include "server/batching/task.h"

namespace attention::server {

struct BatchQueueOptions {
  // Tasks that may be queued; those that a runner has taken do not count. With a longer queue an overloaded server
  // answers later instead of rejecting earlier. At least 1.
  int64_t max_queued_requests = 1024;

  // Limit of the sum of Task::bytes over all admitted tasks that are not done, queued or running. At least 1.
  int64_t max_inflight_bytes = int64_t{2} << 30;

  BatchLimits limits = {};
};

// Holds admitted tasks until a runner takes them as a batch. Its lock is the only one that every request takes.
//
// Thread-safe. Only Pop blocks, and no method waits for a computation. `done` is called without the lock, so it may
// call any method of the queue; `cancelled` is called with the lock held and must not.
//
//   handler                                           runner
//   if (!(status = queue.Push(task)).ok()) …          while (auto batch = queue.Pop()) …
class BatchQueue {
 public:
  using Clock = std::function<absl::Time()>;

  struct Stats {
    int64_t queued_requests = 0;
    int64_t queued_tokens = 0;
    int64_t inflight_bytes = 0;  // queued and running
  };

  explicit BatchQueue(const BatchQueueOptions& options, Clock clock = absl::Now);

  // Ends the tasks that are still queued with UNAVAILABLE. REQUIRES: no thread is in Pop, and every task that Pop
  // returned was destroyed.
  ~BatchQueue();

  // Admits a task: takes it if and only if the result is OK. Its `done` then runs exactly once, possibly before Push
  // returns. Never blocks.
  //   UNAVAILABLE         the queue is full, other requests hold too many bytes, or Close was called: retry later
  //   RESOURCE_EXHAUSTED  the task alone has more than max_inflight_bytes: do not retry
  //   DEADLINE_EXCEEDED   the deadline has passed
  //   CANCELLED           the call was cancelled
  absl::Status Push(std::unique_ptr<Task>& task);

  // Waits until DecideBatch closes a batch, and returns it. Tasks that expired or were cancelled in the queue are ended
  // instead. After Close, returns the tasks that were admitted before, then nothing.
  std::optional<Batch> Pop();

  // Ends, on this thread, every queued task whose deadline has passed (DEADLINE_EXCEEDED) or whose call was cancelled
  // (CANCELLED). Returns their number. To be called when a call is cancelled, so that it ends without waiting for its
  // turn. Push and Pop call it too where it matters.
  int64_t Sweep();

  // Makes Push return UNAVAILABLE, and Pop close batches without waiting for more tasks. Idempotent.
  void Close();

  Stats stats() const;

 private:
  // Does nothing and returns 0 if the last sweep was less than `interval` ago.
  int64_t SweepUnlessRecent(absl::Duration interval);
  absl::Status TryPush(std::unique_ptr<Task>& task);
  absl::Status Admit(Task& task, absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::optional<Batch> TakeOrWait() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Constant after construction.
  const BatchQueueOptions options_;
  const Clock clock_;

  ByteBudget bytes_;  // thread-safe: reservations are released on any thread

  mutable absl::Mutex mu_;
  absl::CondVar changed_;  // a task arrived or the queue was closed
  Lanes lanes_ ABSL_GUARDED_BY(mu_);
  absl::Time last_sweep_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace attention::server
