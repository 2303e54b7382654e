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
  // Tasks that may wait; those that a runner has taken do not count. A longer queue makes an overloaded server answer
  // later rather than refuse sooner. At least 1.
  int64_t max_queued_requests = 1024;

  // Sum of Task::bytes over all tasks that were admitted and are not done, waiting or running. At least 1.
  int64_t max_inflight_bytes = int64_t{2} << 30;

  BatchLimits limits = {};
};

// Holds admitted tasks until a runner takes them as a batch: the one lock on the way of a request.
//
// Thread-safe. No method waits for compute; only Pop blocks. `done` is never called with the lock held, so it may call
// any method of the queue; `cancelled` is called with the lock held and must not.
//
//   handler                                           runner
//   if (!(status = queue.Push(task)).ok()) …          while (auto batch = queue.Pop()) …
class BatchQueue {
 public:
  using Clock = std::function<absl::Time()>;

  struct Stats {
    int64_t queued_requests = 0;
    int64_t queued_tokens = 0;
    int64_t inflight_bytes = 0;  // waiting and running
  };

  explicit BatchQueue(const BatchQueueOptions& options, Clock clock = absl::Now);

  // Ends what is still queued with UNAVAILABLE. REQUIRES: no thread is in Pop, and no task that was handed out is left.
  ~BatchQueue();

  // Admits a task: takes it if and only if the result is OK; its `done` then runs exactly once, possibly before Push
  // returns. Never blocks.
  //   UNAVAILABLE         the queue is full, other requests hold too many bytes, or Close was called: try again later
  //   RESOURCE_EXHAUSTED  the task alone has more than max_inflight_bytes: do not try again
  //   DEADLINE_EXCEEDED   the deadline has passed
  //   CANCELLED           nobody waits for it any more
  absl::Status Push(std::unique_ptr<Task>& task);

  // Waits until a batch can be closed and hands it out; DecideBatch says which and when. Tasks that died while they
  // waited are ended instead. Nothing once Close was called and the queue is empty: what was admitted before is still
  // handed out.
  std::optional<Batch> Pop();

  // Ends, now and on this thread, every waiting task whose deadline has passed (DEADLINE_EXCEEDED) or that nobody waits
  // for any more (CANCELLED). Returns how many. To be called when a call is cancelled, so that it need not wait for its
  // turn; Push and Pop call it too where it matters.
  int64_t Sweep();

  // From now on Push refuses with UNAVAILABLE, and Pop waits for no company. Can be called more than once.
  void Close();

  Stats stats() const;

 private:
  int64_t SweepIfLastWas(absl::Duration ago);
  absl::Status TryPush(std::unique_ptr<Task>& task);
  absl::Status Admit(Task& task, absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::optional<Batch> TakeOrWait() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Constant after construction.
  const BatchQueueOptions options_;
  const Clock clock_;

  ByteBudget bytes_;  // thread-safe by itself, for reservations end on any thread

  mutable absl::Mutex mu_;
  absl::CondVar changed_;  // a task arrived or the queue was closed
  Lanes lanes_ ABSL_GUARDED_BY(mu_);
  absl::Time last_sweep_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace attention::server
