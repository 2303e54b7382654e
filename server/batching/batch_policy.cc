#include "server/batching/batch_policy.h"

#include <algorithm>

namespace attention::server {
namespace {

// The tasks at the front of a lane that fit into one batch.
struct FrontTasks {
  size_t count = 0;
  std::optional<BatchCloseReason> reached_limit;   // empty: another task might still fit
  absl::Time wait_until = absl::InfiniteFuture();  // when the first of them has waited long enough
};

absl::Time WaitUntil(const Task& task, const BatchLimits& limits) {
  return task.enqueue_time + std::min(limits.batch_timeout, (task.deadline - task.enqueue_time) / 2);
}

FrontTasks MeasureFront(const Lane& lane, const BatchLimits& limits) {
  FrontTasks front;
  int64_t tokens = 0;
  for (const std::unique_ptr<Task>& task : lane.tasks) {
    if (tokens >= limits.max_batch_tokens ||
        (front.count > 0 && task->call.tokens > limits.max_batch_tokens - tokens)) {
      front.reached_limit = BatchCloseReason::kMaxTokens;
      return front;
    }
    tokens += task->call.tokens;
    front.wait_until = std::min(front.wait_until, WaitUntil(*task, limits));
    if (static_cast<int64_t>(++front.count) >= limits.max_batch_requests) {
      front.reached_limit = BatchCloseReason::kMaxRequests;
      return front;
    }
  }
  if (tokens >= limits.max_batch_tokens) front.reached_limit = BatchCloseReason::kMaxTokens;
  return front;
}

// Why the batch can be closed now; empty if it can still wait for more tasks. With a timeout of 0 the clock is not
// compared, so the server keeps working if the clock is set back.
std::optional<BatchCloseReason> CloseReason(const FrontTasks& front, const BatchLimits& limits, absl::Time now) {
  if (front.reached_limit) return front.reached_limit;
  if (limits.batch_timeout <= absl::ZeroDuration()) return BatchCloseReason::kQueueDrained;
  if (now >= front.wait_until) return BatchCloseReason::kTimeout;
  return std::nullopt;
}

bool IsServedBefore(const Lane& a, const Lane& b) {
  if (a.served_tokens != b.served_tokens) return a.served_tokens < b.served_tokens;
  return a.tasks.front()->enqueue_time < b.tasks.front()->enqueue_time;
}

}  // namespace

BatchDecision DecideBatch(absl::Span<const Lane> lanes, const BatchLimits& limits, absl::Time now) {
  BatchDecision decision;
  for (size_t i = 0; i < lanes.size(); ++i) {
    if (lanes[i].tasks.empty() || (decision.lane && !IsServedBefore(lanes[i], lanes[*decision.lane]))) continue;
    const FrontTasks front = MeasureFront(lanes[i], limits);
    if (const std::optional<BatchCloseReason> reason = CloseReason(front, limits, now)) {
      decision.lane = i;
      decision.task_count = front.count;
      decision.close_reason = *reason;
    } else {
      decision.wait_until = std::min(decision.wait_until, front.wait_until);
    }
  }
  return decision;
}

int64_t ServedTokens(const Task& task) { return std::max<int64_t>(1, task.call.tokens); }

}  // namespace attention::server
