#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "server/batching/task.h"

// Decides which queued tasks are computed next. Pure functions: no thread, no lock, no clock.
namespace attention::server {

// When a batch is closed. A token is one input row that the computation needs (AttentionCall::tokens).
struct BatchLimits {
  // Tokens of one batch. A request with more runs alone. A larger limit keeps the cores busier; a smaller one shortens
  // the wait of a small request behind others. At least 1.
  int64_t max_batch_tokens = 16384;

  // Requests of one batch. At least 1.
  int64_t max_batch_requests = 256;

  // Cost of one batch (AttentionCall::cost). A request that costs more runs alone. All requests of a batch are answered
  // at its end, and a request that arrives meanwhile waits for that, so it should take some ten milliseconds.
  double max_batch_cost = 2e9;

  // How long a free runner waits for more requests to fill a batch, counted from when the batch's oldest task was
  // queued. The default 0 closes the batch at once. A longer wait pays off only where many tiny requests arrive close
  // together.
  absl::Duration batch_timeout = absl::ZeroDuration();
};

// The queued tasks of one weight set, either the small or the other ones.
struct Lane {
  std::weak_ptr<const WeightSet> weight_set;
  bool is_small = true;

  // Cost that this lane has been served, comparable between lanes. The lane with the least is served next.
  double served_cost = 0;

  double queued_cost = 0;  // of `tasks`

  // Ordered by priority, highest first, then by arrival. A batch always takes tasks from the front.
  std::vector<std::unique_ptr<Task>> tasks;
};

// The result of DecideBatch: a batch to close now, or how long to wait.
struct BatchDecision {
  // Index of the lane whose first `task_count` tasks form the batch. Empty: no batch can be closed yet.
  std::optional<size_t> lane;
  size_t task_count = 0;
  BatchCloseReason close_reason = BatchCloseReason::kQueueDrained;

  // Without a batch: when to decide again if no task arrives earlier. Infinite if no task is queued.
  absl::Time wait_until = absl::InfiniteFuture();
};

// Which lanes a runner serves.
enum class LaneChoice { kAll, kSmall };

// Chooses the next batch. A lane is ready if the tasks at its front reach a limit or have waited for batch_timeout. Of
// the ready lanes, the one with the least served cost is taken; of equal ones, the one whose first task was queued
// first. No task is skipped: if the next one does not fit, the batch is closed.
//
// A task waits for a batch to fill for at most half of the time between its arrival and its deadline, so the other half
// remains for computing.
BatchDecision DecideBatch(absl::Span<const Lane> lanes, LaneChoice choice, const BatchLimits& limits, absl::Time now);

}  // namespace attention::server
