#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/admission/byte_budget.h"
#include "server/engine/attention_call.h"
#include "server/weights/weight_set.h"

namespace attention::server {

// Why a batch was closed; see attention.v1.BatchCloseReason. server/rpc/proto_conversion.cc ties the numbers to it.
enum class BatchCloseReason { kQueueDrained = 1, kTimeout = 2, kMaxRequests = 3, kMaxTokens = 4 };

// The fields of attention.v1.Timing for one task. batch_requests is 0 for a task that was not computed.
struct TaskReport {
  absl::Duration queue_time;
  absl::Duration compute_time;
  int64_t batch_requests = 0;
  int64_t batch_tokens = 0;
  BatchCloseReason batch_close_reason = BatchCloseReason::kQueueDrained;
};

// One request on its way from the handler through the queue to a runner. The holder of the unique_ptr owns it.
struct Task {
  // The weights to compute with. Never null.
  std::shared_ptr<const WeightSet> weight_set;

  // Points into the request and the reply, which stay alive until `done` has run.
  AttentionCall call;

  // Bytes of inputs and outputs that the request keeps allocated until it ends. At least 0.
  int64_t bytes = 0;

  int32_t priority = 0;
  absl::Time deadline = absl::InfiniteFuture();

  // Returns true once the call was cancelled. Called from any thread, only before `done`. Null: never cancelled.
  std::function<bool()> cancelled;

  // Ends the request. Runs exactly once for each task that Push took, on any thread, with no lock held.
  absl::AnyInvocable<void(const absl::Status&, const TaskReport&)> done;

  // Set by the queue. The bytes stay reserved until the task is destroyed, which is right after `done`.
  absl::Time enqueue_time;
  ByteReservation reservation;
};

// Tasks that are computed together: at least one, all of the same weight set.
struct Batch {
  std::shared_ptr<const WeightSet> weight_set;
  std::vector<std::unique_ptr<Task>> tasks;
  BatchCloseReason close_reason = BatchCloseReason::kQueueDrained;
  absl::Time close_time;
};

// Returns OK if the task should still be computed, DEADLINE_EXCEEDED if its deadline has passed, or CANCELLED if its
// call was cancelled.
inline absl::Status CheckAlive(const Task& task, absl::Time now) {
  // Checks the deadline first, because gRPC reports a call whose deadline has passed as cancelled too.
  if (task.deadline <= now) {
    return absl::DeadlineExceededError(
        absl::StrCat("deadline: passed ", absl::FormatDuration(now - task.deadline), " before the computation began"));
  }
  if (task.cancelled && task.cancelled()) {
    return absl::CancelledError("call: cancelled before the computation began");
  }
  return absl::OkStatus();
}

// Runs `done` for a task that will not be computed, and destroys the task.
inline void EndUncomputed(std::unique_ptr<Task> task, const absl::Status& status, absl::Time now) {
  TaskReport report;
  report.queue_time = now - task->enqueue_time;
  task->done(status, report);
}

}  // namespace attention::server
