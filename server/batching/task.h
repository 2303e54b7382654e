#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/admission/byte_budget.h"
#include "server/engine/attention_call.h"
#include "server/weights/weight_set.h"

namespace attention::server {

// The numbers are those of attention.v1.BatchCloseReason, which documents them.
enum class BatchCloseReason { kQueueDrained = 1, kTimeout = 2, kMaxRequests = 3, kMaxTokens = 4 };

// What happened to a task, as attention.v1.Timing tells it. A task that was never computed has batch_requests 0.
struct TaskReport {
  absl::Duration queue_time;
  absl::Duration compute_time;
  int64_t batch_requests = 0;
  int64_t batch_tokens = 0;
  BatchCloseReason batch_close_reason = BatchCloseReason::kQueueDrained;
};

// One admitted request on its way from the handler through the queue to a runner. Whoever holds the unique_ptr owns it.
struct Task {
  // The parameters to use; never null.
  std::shared_ptr<const WeightSet> weight_set;

  // Its memory belongs to the request and the reply, which live until `done` has run.
  AttentionCall call;

  // Memory held by this request while it is under way: inputs and outputs. Not negative.
  int64_t bytes = 0;

  int32_t priority = 0;
  absl::Time deadline = absl::InfiniteFuture();

  // True once nobody waits for the answer any more. Called from any thread, only before `done`. May be null (never).
  std::function<bool()> cancelled;

  // Ends the request. Runs exactly once for each task that Push took, on any thread, with no lock held.
  absl::AnyInvocable<void(const absl::Status&, const TaskReport&)> done;

  // Set by the queue. The bytes count as in flight until the task is destroyed, which is right after `done`.
  absl::Time enqueue_time;
  ByteReservation reservation;
};

// Tasks that are computed together: all of one weight set, at least one.
struct Batch {
  std::shared_ptr<const WeightSet> weight_set;
  std::vector<std::unique_ptr<Task>> tasks;
  BatchCloseReason close_reason = BatchCloseReason::kQueueDrained;
  absl::Time close_time;
};

// OK while a task should be computed; DEADLINE_EXCEEDED once its deadline has passed, else CANCELLED once nobody waits
// for it any more.
absl::Status Liveness(const Task& task, absl::Time now);

// Runs `done` for a task that will not be computed, and destroys the task.
void EndUncomputed(std::unique_ptr<Task> task, const absl::Status& status, absl::Time now);

}  // namespace attention::server
