#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/engine/attention_call.h"
#include "server/weights/weight_set.h"

namespace attention::server {

// Why a batch was closed; see attention.v1.BatchCloseReason. server/rpc/proto_conversion.cc ties the numbers to it.
enum class BatchCloseReason { kQueueDrained = 1, kTimeout = 2, kMaxRequests = 3, kMaxTokens = 4, kMaxCost = 5 };

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

  // Points into the request and the reply, and to the StopToken of the call, which stay alive until `done` has run.
  AttentionCall call;

  int32_t priority = 0;

  // Ends the request. Runs exactly once for each task that Push took, on any thread, with no lock held.
  absl::AnyInvocable<void(const absl::Status&, const TaskReport&)> done;

  // Set by the queue. Cheap tasks are queued and computed apart from the others, so that they never wait for an
  // expensive batch.
  absl::Time enqueue_time;
  bool is_small = false;

  absl::Time deadline() const { return call.stop == nullptr ? absl::InfiniteFuture() : call.stop->deadline(); }
};

// Tasks that are computed together: at least one, all of the same weight set, and all small or none.
struct Batch {
  std::shared_ptr<const WeightSet> weight_set;
  std::vector<std::unique_ptr<Task>> tasks;
  BatchCloseReason close_reason = BatchCloseReason::kQueueDrained;
  absl::Time close_time;
  bool is_small = true;
  int64_t load_id = 0;  // in the queue's LoadEstimate
};

// OK if the task should still be computed; else the status of its StopToken.
inline absl::Status CheckAlive(const Task& task, absl::Time now) {
  return task.call.stop == nullptr ? absl::OkStatus() : task.call.stop->Check(now);
}

// Runs `done` for a task that will not be computed, and destroys the task.
inline void EndUncomputed(std::unique_ptr<Task> task, const absl::Status& status, absl::Time now) {
  TaskReport report;
  report.queue_time = now - task->enqueue_time;
  task->done(status, report);
}

}  // namespace attention::server
