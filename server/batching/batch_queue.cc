#include "server/batching/batch_queue.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace attention::server {
namespace {

// How often a full queue that is pushed to again and again looks for dead tasks: each look costs a walk over all of it.
constexpr absl::Duration kSweepInterval = absl::Milliseconds(1);

absl::Status StoppingError() { return absl::UnavailableError("the server is stopping"); }

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
  // The room that dead tasks held is free only once their `done` has run, so a second try needs the lock again.
  if (absl::IsUnavailable(status) && SweepIfLastWas(kSweepInterval) > 0) status = TryPush(task);
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
    return absl::ResourceExhaustedError(absl::StrCat(
        "request: ", task.bytes, " bytes of inputs and outputs, --max-inflight-bytes allows ", bytes_.limit()));
  }
  // Under the lock, so that a call which is cancelled at this moment is either refused here or found by the Sweep that
  // follows its cancellation.
  if (absl::Status status = Liveness(task, now); !status.ok()) return status;
  if (lanes_.requests() >= options_.max_queued_requests) {
    return absl::UnavailableError(absl::StrCat("queue: ", lanes_.requests(),
                                               " requests are waiting, --max-queued-requests allows ",
                                               options_.max_queued_requests));
  }
  std::optional<ByteReservation> reservation = bytes_.TryReserve(task.bytes);
  if (!reservation) {
    return absl::UnavailableError(absl::StrCat("queue: ", task.bytes, " bytes do not fit beside the ", bytes_.used(),
                                               " in flight, --max-inflight-bytes allows ", bytes_.limit()));
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
  if (closed_) limits.batch_timeout = absl::ZeroDuration();  // no company can come
  const absl::Time now = clock_();
  const BatchDecision decision = DecideBatch(lanes_.view(), limits, now);
  if (!decision.lane) {
    if (lanes_.requests() == 0) lanes_.Reset();
    changed_.WaitWithTimeout(&mu_, decision.wait_until - now);
    return std::nullopt;
  }
  Batch batch = lanes_.Take(decision, now);
  // This thread is busy now: another one must look after the rest, of which it may know nothing if it went to sleep
  // earlier.
  if (lanes_.requests() > 0) changed_.Signal();
  return batch;
}

int64_t BatchQueue::Sweep() { return SweepIfLastWas(absl::ZeroDuration()); }

int64_t BatchQueue::SweepIfLastWas(absl::Duration ago) {
  std::vector<DeadTask> dead;
  const absl::Time now = clock_();
  {
    absl::MutexLock lock(&mu_);
    if (absl::AbsDuration(now - last_sweep_) < ago) return 0;
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
