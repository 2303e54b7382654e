#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "server/batching/task.h"

// Which queued tasks are computed next, as pure functions: no thread, no lock, no clock.
namespace attention::server {

// When a batch is closed.
struct BatchLimits {
  // Tokens (AttentionCall::tokens) of one batch. A request with more runs alone. Larger keeps the cores busy, smaller
  // lets a small request wait less behind others. At least 1.
  int64_t max_batch_tokens = 16384;

  // Requests of one batch. At least 1.
  int64_t max_batch_requests = 256;

  // How long a task may wait for company while a runner is free, counted from when the batch's oldest task was queued.
  // 0, the default, takes what is queued at once; more is worth it only where requests are tiny and come close
  // together.
  absl::Duration batch_timeout = absl::ZeroDuration();
};

// The tasks that wait for one weight set.
struct Lane {
  std::weak_ptr<const WeightSet> weight_set;

  // Tokens that this weight set was served, comparable between lanes: the lane with the fewest goes next.
  int64_t served_tokens = 0;

  // Higher priority first, then in order of arrival. A batch is always a number of tasks from the front.
  std::vector<std::unique_ptr<Task>> tasks;
};

// The answer of DecideBatch: a batch to close now, or how long to wait.
struct BatchDecision {
  // Index of the lane whose first `task_count` tasks form the batch. Nothing: no batch can be closed yet.
  std::optional<size_t> lane;
  size_t task_count = 0;
  BatchCloseReason close_reason = BatchCloseReason::kQueueDrained;

  // When to ask again if nothing arrives before, if there is no batch; infinite if no task is queued.
  absl::Time wait_until = absl::InfiniteFuture();
};

// A batch is ready if it has reached a limit or its time for company is over; of the lanes with a ready batch, the one
// with the fewest served tokens is taken, and of equal ones that whose first task was queued first. No task is passed
// over: if the next in line does not fit, the batch is closed.
//
// A task never waits for company longer than half of the time from when it was queued to its deadline, so the other
// half remains to compute in.
BatchDecision DecideBatch(absl::Span<const Lane> lanes, const BatchLimits& limits, absl::Time now);

// What a task counts in served_tokens: its tokens, but at least one, so that empty requests also take turns.
int64_t ServedTokens(const Task& task);

}  // namespace attention::server
