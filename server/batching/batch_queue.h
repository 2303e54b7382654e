#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/batching/batch_policy.h"
#include "server/batching/lanes.h"
#include "server/batching/load_estimate.h"
#include "server/batching/task.h"
#include "server/runtime/clock.h"

namespace attention::server {

struct BatchQueueOptions {
  // Tasks that may be queued; those that a runner has taken do not count. With a longer queue an overloaded server
  // answers later instead of rejecting earlier. At least 1.
  int64_t max_queued_requests = 1024;

  // Longest expected wait of a task in the queue. May be infinite.
  absl::Duration max_queue_delay = absl::InfiniteDuration();

  // Cost up to which a task is small; about a fifth of a millisecond of one thread. 0: no task is, for a queue without
  // runners for small tasks.
  double max_small_cost = 2e7;

  BatchLimits limits = {};
};

// Holds admitted tasks until a runner takes them as a batch. It admits only what can be computed in time, judged by the
// cost of what is queued and the rate of the last batches: a queue that is longer than its callers' patience would
// compute for callers that have given up. A task before which nothing is queued or computed is always admitted, so a
// wrong rate corrects itself.
//
// Thread-safe. Only Pop blocks, and no method waits for a computation. `done` is called without the lock, so it may
// call any method of the queue.
//
//   handler                                           runner
//   if (!(status = queue.Push(task)).ok()) …          while (auto batch = queue.Pop()) …
class BatchQueue {
 public:
  using Clock = std::function<absl::Time()>;

  struct Stats {
    int64_t queued_requests = 0;
    int64_t queued_tokens = 0;
  };

  explicit BatchQueue(const BatchQueueOptions& options, Clock clock = SteadyNow);

  // Ends the tasks that are still queued with UNAVAILABLE. REQUIRES: no thread is in Pop, and every task that Pop
  // returned was destroyed.
  ~BatchQueue();

  // Admits a task: takes it if and only if the result is OK. Its `done` then runs exactly once, possibly before Push
  // returns. Never blocks. Throws std::bad_alloc.
  //   UNAVAILABLE        the queue is full, the wait would be too long, or Close was called. With advice when to retry
  //                      (admission/retry.h), except after Close
  //   DEADLINE_EXCEEDED  the deadline has passed
  //   CANCELLED          the call was cancelled
  absl::Status Push(std::unique_ptr<Task>& task);

  // Waits until DecideBatch closes a batch of the chosen lanes, and returns it. Tasks that expired, were cancelled or
  // can no longer meet their deadline are ended instead. After Close, returns the tasks that were admitted before, then
  // nothing. Throws std::bad_alloc. After the computation the caller must call Finished.
  std::optional<Batch> Pop(LaneChoice choice = LaneChoice::kAll);

  // Reports that the computation of a batch has ended, which had this cost.
  void Finished(const Batch& batch, double computed_cost);

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
  absl::Status Admit(const Task& task, absl::Time now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CheckWait(const Task& task, absl::Time now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CheckStillUseful(const Task& task, absl::Time now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::optional<Batch> TakeOrWait(LaneChoice choice) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void WakeRunner() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  LoadEstimate& EstimateFor(bool is_small) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return is_small ? small_tasks_ : other_tasks_;
  }
  const LoadEstimate& EstimateFor(bool is_small) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return is_small ? small_tasks_ : other_tasks_;
  }

  // Constant after construction.
  const BatchQueueOptions options_;
  const Clock clock_;

  mutable absl::Mutex mu_;
  absl::CondVar any_task_;    // for runners of all lanes: a task arrived or the queue was closed
  absl::CondVar small_task_;  // for runners of small lanes
  int idle_runners_of_all_ ABSL_GUARDED_BY(mu_) = 0;
  Lanes lanes_ ABSL_GUARDED_BY(mu_);
  LoadEstimate small_tasks_ ABSL_GUARDED_BY(mu_);
  LoadEstimate other_tasks_ ABSL_GUARDED_BY(mu_);
  absl::Time last_sweep_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace attention::server
