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
  return task.enqueue_time + std::min(limits.batch_timeout, (task.deadline() - task.enqueue_time) / 2);
}

// Whether a batch has reached a limit, so that no other task is added.
std::optional<BatchCloseReason> ReachedLimit(int64_t requests, int64_t tokens, double cost, const BatchLimits& limits) {
  if (requests >= limits.max_batch_requests) return BatchCloseReason::kMaxRequests;
  if (tokens >= limits.max_batch_tokens) return BatchCloseReason::kMaxTokens;
  if (cost >= limits.max_batch_cost) return BatchCloseReason::kMaxCost;
  return std::nullopt;
}

// The limit that a batch would exceed with another call.
std::optional<BatchCloseReason> ExceededLimit(int64_t tokens, double cost, const AttentionCall& next,
                                              const BatchLimits& limits) {
  if (next.tokens > limits.max_batch_tokens - tokens) return BatchCloseReason::kMaxTokens;
  if (next.cost > limits.max_batch_cost - cost) return BatchCloseReason::kMaxCost;
  return std::nullopt;
}

FrontTasks MeasureFront(const Lane& lane, const BatchLimits& limits) {
  FrontTasks front;
  int64_t tokens = 0;
  double cost = 0;
  for (const std::unique_ptr<Task>& task : lane.tasks) {
    const AttentionCall& call = task->call;
    if (front.count > 0) front.reached_limit = ExceededLimit(tokens, cost, call, limits);
    if (front.reached_limit) return front;
    ++front.count;
    tokens += call.tokens;
    cost += call.cost;
    front.wait_until = std::min(front.wait_until, WaitUntil(*task, limits));
    front.reached_limit = ReachedLimit(static_cast<int64_t>(front.count), tokens, cost, limits);
    if (front.reached_limit) return front;
  }
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
  if (a.served_cost != b.served_cost) return a.served_cost < b.served_cost;
  return a.tasks.front()->enqueue_time < b.tasks.front()->enqueue_time;
}

}  // namespace

BatchDecision DecideBatch(absl::Span<const Lane> lanes, LaneChoice choice, const BatchLimits& limits, absl::Time now) {
  BatchDecision decision;
  for (size_t i = 0; i < lanes.size(); ++i) {
    if (choice == LaneChoice::kSmall && !lanes[i].is_small) continue;
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

}  // namespace attention::server
