#include "server/batching/batch_queue.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/admission/call_gate.h"

namespace attention::server {
namespace {

// A full queue that is pushed to repeatedly searches for dead tasks at most this often, because each search visits
// every task.
constexpr absl::Duration kSweepInterval = absl::Milliseconds(1);

}  // namespace

BatchQueue::BatchQueue(const BatchQueueOptions& options, Clock clock)
    : options_(options), clock_(std::move(clock)), bytes_(options.max_inflight_bytes) {}

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
  // Dead tasks release their bytes only after `done` has run, without the lock. The second attempt takes it again.
  if (absl::IsUnavailable(status) && SweepUnlessRecent(kSweepInterval) > 0) status = TryPush(task);
  return status;
}

absl::Status BatchQueue::TryPush(std::unique_ptr<Task>& task) {
  absl::MutexLock lock(&mu_);
  const absl::Time now = clock_();
  if (absl::Status status = Admit(*task, now); !status.ok()) return status;
  task->enqueue_time = now;
  lanes_.Add(std::move(task));
  changed_.Signal();
  return absl::OkStatus();
}

absl::Status BatchQueue::Admit(Task& task, absl::Time now) {
  if (closed_) return StoppingError();
  if (task.bytes > bytes_.limit()) {
    return absl::ResourceExhaustedError(absl::StrCat("request: expected at most ", bytes_.limit(),
                                                     " bytes of inputs and outputs (--max-inflight-bytes), got ",
                                                     task.bytes));
  }
  // Checked under the lock: a call that is cancelled at this moment is either rejected here or found by the Sweep that
  // follows its cancellation.
  if (absl::Status status = CheckAlive(task, now); !status.ok()) return status;
  if (lanes_.requests() >= options_.max_queued_requests) {
    return absl::UnavailableError(absl::StrCat("queue: expected fewer than ", options_.max_queued_requests,
                                               " waiting requests (--max-queued-requests), got ", lanes_.requests()));
  }
  std::optional<ByteReservation> reservation = bytes_.TryReserve(task.bytes);
  if (!reservation) {
    return absl::UnavailableError(absl::StrCat("queue: expected at most ", bytes_.limit(),
                                               " bytes in flight (--max-inflight-bytes), got ", bytes_.used(), " and ",
                                               task.bytes, " of this request"));
  }
  task.reservation = *std::move(reservation);
  return absl::OkStatus();
}

std::optional<Batch> BatchQueue::Pop() {
  while (true) {
    Sweep();
    absl::MutexLock lock(&mu_);
    if (closed_ && lanes_.requests() == 0) return std::nullopt;
    if (std::optional<Batch> batch = TakeOrWait()) return batch;
  }
}

std::optional<Batch> BatchQueue::TakeOrWait() {
  BatchLimits limits = options_.limits;
  if (closed_) limits.batch_timeout = absl::ZeroDuration();  // no more tasks can arrive
  const absl::Time now = clock_();
  const BatchDecision decision = DecideBatch(lanes_.view(), limits, now);
  if (!decision.lane) {
    if (lanes_.requests() == 0) lanes_.Reset();
    changed_.WaitWithTimeout(&mu_, decision.wait_until - now);
    return std::nullopt;
  }
  Batch batch = lanes_.Take(decision, now);
  // This thread is busy from now on. Another one may sleep with an outdated wait_until, so wake it for the rest.
  if (lanes_.requests() > 0) changed_.Signal();
  return batch;
}

int64_t BatchQueue::Sweep() { return SweepUnlessRecent(absl::ZeroDuration()); }

int64_t BatchQueue::SweepUnlessRecent(absl::Duration interval) {
  std::vector<DeadTask> dead;
  const absl::Time now = clock_();
  {
    absl::MutexLock lock(&mu_);
    if (absl::AbsDuration(now - last_sweep_) < interval) return 0;
    last_sweep_ = now;
    dead = lanes_.RemoveDead(now);
  }
  for (DeadTask& entry : dead) EndUncomputed(std::move(entry.task), entry.status, now);
  return static_cast<int64_t>(dead.size());
}

void BatchQueue::Close() {
  absl::MutexLock lock(&mu_);
  closed_ = true;
  changed_.SignalAll();
}

BatchQueue::Stats BatchQueue::stats() const {
  absl::MutexLock lock(&mu_);
  return {lanes_.requests(), lanes_.tokens(), bytes_.used()};
}

}  // namespace attention::server
