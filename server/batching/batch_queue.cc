#include "server/batching/batch_queue.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/admission/admission.h"
#include "server/admission/retry.h"
#include "server/engine/engine.h"

namespace attention::server {
namespace {

// A full queue that is pushed to repeatedly searches for dead tasks at most this often, because each search visits
// every task.
constexpr absl::Duration kSweepInterval = absl::Milliseconds(1);

// The shortest wait that a rejected call is advised: about the time of a batch.
constexpr absl::Duration kLeastRetryAfter = absl::Milliseconds(5);

absl::Status Rejected(const std::string& message, absl::Duration retry_after) {
  return WithRetryAfter(absl::UnavailableError(message), std::max(retry_after, kLeastRetryAfter));
}

std::string Text(absl::Duration duration) { return absl::FormatDuration(absl::Trunc(duration, absl::Microseconds(1))); }

}  // namespace

BatchQueue::BatchQueue(const BatchQueueOptions& options, Clock clock) : options_(options), clock_(std::move(clock)) {}

BatchQueue::~BatchQueue() {
  Close();
  while (std::optional<Batch> batch = Pop()) {
    for (std::unique_ptr<Task>& task : batch->tasks) {
      EndUncomputed(std::move(task), StoppingError(), batch->close_time);
    }
  }
}

absl::Status BatchQueue::Push(std::unique_ptr<Task>& task) {
  absl::Status status = TryPush(task);
  // Tasks that are dead may make room.
  if (absl::IsUnavailable(status) && SweepUnlessRecent(kSweepInterval) > 0) status = TryPush(task);
  return status;
}

absl::Status BatchQueue::TryPush(std::unique_ptr<Task>& task) {
  absl::MutexLock lock(&mu_);
  const absl::Time now = clock_();
  task->is_small = task->call.cost <= options_.max_small_cost;
  if (absl::Status status = Admit(*task, now); !status.ok()) return status;
  task->enqueue_time = now;
  lanes_.Add(task);
  WakeRunner();
  return absl::OkStatus();
}

absl::Status BatchQueue::Admit(const Task& task, absl::Time now) const {
  if (closed_) return StoppingError();
  // Checked under the lock: a call that is cancelled at this moment is either rejected here or found by the Sweep that
  // follows its cancellation.
  if (absl::Status status = CheckAlive(task, now); !status.ok()) return status;
  if (lanes_.requests() >= options_.max_queued_requests) {
    return Rejected(absl::StrCat("queue: expected fewer than ", options_.max_queued_requests,
                                 " waiting requests (--max-queued-requests), got ", lanes_.requests()),
                    EstimateFor(task.is_small).TimeFor(lanes_.CostBefore(task)) / 2);
  }
  return CheckWait(task, now);
}

absl::Status BatchQueue::CheckWait(const Task& task, absl::Time now) const {
  const LoadEstimate& estimate = EstimateFor(task.is_small);
  const double before = lanes_.CostBefore(task);
  if (before == 0 && estimate.idle()) return absl::OkStatus();
  const absl::Duration wait = estimate.Remaining(now) + estimate.TimeFor(before);
  if (wait > options_.max_queue_delay) {
    return Rejected(absl::StrCat("queue: expected a wait of at most ", Text(options_.max_queue_delay),
                                 " (--max-queue-delay), got about ", Text(wait)),
                    wait - options_.max_queue_delay);
  }
  const absl::Duration left = task.deadline() - now;
  const absl::Duration needed = wait + estimate.TimeFor(task.call.cost);
  if (needed <= left) return absl::OkStatus();
  // The deadline comes before the queue is shorter, so only another server could help.
  return WithRetryAfter(absl::UnavailableError(absl::StrCat("deadline: expected at least ", Text(needed),
                                                            " for the queue and the computation, got ", Text(left))),
                        kNeverRetry);
}

absl::Status BatchQueue::CheckStillUseful(const Task& task, absl::Time now) const {
  if (absl::Status status = CheckAlive(task, now); !status.ok()) return status;
  const LoadEstimate& estimate = EstimateFor(task.is_small);
  const absl::Duration needed = estimate.TimeFor(task.call.cost);
  const bool is_alone = estimate.idle() && lanes_.requests() == 1;
  if (is_alone || now + needed <= task.deadline()) return absl::OkStatus();
  return absl::DeadlineExceededError(absl::StrCat("deadline: expected at least ", Text(needed),
                                                  " for the computation, got ", Text(task.deadline() - now)));
}

std::optional<Batch> BatchQueue::Pop(LaneChoice choice) {
  while (true) {
    Sweep();
    absl::MutexLock lock(&mu_);
    if (closed_ && lanes_.requests() == 0) return std::nullopt;
    if (std::optional<Batch> batch = TakeOrWait(choice)) return batch;
  }
}

std::optional<Batch> BatchQueue::TakeOrWait(LaneChoice choice) {
  BatchLimits limits = options_.limits;
  if (closed_) limits.batch_timeout = absl::ZeroDuration();  // no more tasks can arrive
  if (choice == LaneChoice::kSmall) limits.max_batch_cost = std::min(limits.max_batch_cost, Engine::kCallerCost);
  const absl::Time now = clock_();
  const BatchDecision decision = DecideBatch(lanes_.view(), choice, limits, now);
  if (!decision.lane) {
    if (lanes_.requests() == 0) lanes_.Reset();
    const bool serves_all = choice == LaneChoice::kAll;
    idle_runners_of_all_ += serves_all ? 1 : 0;
    (serves_all ? any_task_ : small_task_).WaitWithTimeout(&mu_, decision.wait_until - now);
    idle_runners_of_all_ -= serves_all ? 1 : 0;
    return std::nullopt;
  }
  Batch batch = lanes_.Take(decision, now);
  double cost = 0;
  for (const std::unique_ptr<Task>& task : batch.tasks) cost += task->call.cost;
  batch.load_id = EstimateFor(batch.is_small).Started(cost, now);
  // This thread is busy from now on. Another one may sleep with an outdated wait_until, so wake it for the rest.
  if (lanes_.requests() > 0) WakeRunner();
  return batch;
}

// A runner of all lanes is preferred, because it can take any task.
void BatchQueue::WakeRunner() { (idle_runners_of_all_ > 0 ? any_task_ : small_task_).Signal(); }

void BatchQueue::Finished(const Batch& batch, double computed_cost) {
  absl::MutexLock lock(&mu_);
  EstimateFor(batch.is_small).Finished(batch.load_id, computed_cost, clock_());
}

int64_t BatchQueue::Sweep() { return SweepUnlessRecent(absl::ZeroDuration()); }

int64_t BatchQueue::SweepUnlessRecent(absl::Duration interval) {
  std::vector<DeadTask> dead;
  const absl::Time now = clock_();
  {
    absl::MutexLock lock(&mu_);
    if (absl::AbsDuration(now - last_sweep_) < interval) return 0;
    last_sweep_ = now;
    dead = lanes_.RemoveDead([&](const Task& task) {
      mu_.AssertHeld();
      return CheckStillUseful(task, now);
    });
  }
  for (DeadTask& entry : dead) EndUncomputed(std::move(entry.task), entry.status, now);
  return static_cast<int64_t>(dead.size());
}

void BatchQueue::Close() {
  absl::MutexLock lock(&mu_);
  closed_ = true;
  any_task_.SignalAll();
  small_task_.SignalAll();
}

BatchQueue::Stats BatchQueue::stats() const {
  absl::MutexLock lock(&mu_);
  return {lanes_.requests(), lanes_.tokens()};
}

}  // namespace attention::server
