#pragma once

#include <functional>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "server/batching/batch_queue.h"
#include "server/batching/task.h"
#include "server/engine/attention_call.h"
#include "server/weights/weight_set.h"

namespace attention::server {

// Computes the calls of one batch, all with the same weight set; for requests without a weight set, one that has no
// layer. Called concurrently from the runner threads. An error ends all tasks of the batch, so requests must be
// validated before they are queued.
using ComputeFn =
    std::function<absl::Status(const WeightSet& weight_set, absl::Span<const AttentionCall* const> calls)>;

struct BatchRunnerOptions {
  // Threads that take any batch. One is enough if a batch keeps all cores busy. At least 1.
  int num_threads = 1;

  // Threads that only take small tasks, so that these do not wait for an expensive batch: the kernel divides the CPUs
  // between the two.
  int num_small_threads = 0;

  // The clock of the queue.
  BatchQueue::Clock clock = SteadyNow;
};

// Owns the threads that take batches from the queue, compute them and end their tasks.
//
// Tasks that expired or were cancelled end with that status, whether they were computed or not. If `compute` fails, its
// status ends the tasks of that batch only. An exception is logged and becomes RESOURCE_EXHAUSTED (out of memory) or
// INTERNAL, with a fixed text.
class BatchRunner {
 public:
  // Starts the threads. `queue` must outlive the runner.
  BatchRunner(BatchQueue* queue, ComputeFn compute, const BatchRunnerOptions& options = {});

  // Waits until all queued tasks are done. REQUIRES: the queue was closed; otherwise this never returns.
  ~BatchRunner();

  BatchRunner(const BatchRunner&) = delete;
  BatchRunner& operator=(const BatchRunner&) = delete;

 private:
  void Loop(LaneChoice choice);
  void Run(Batch batch);
  absl::Status Compute(const Batch& batch);

  // Constant after construction.
  BatchQueue* const queue_;
  const ComputeFn compute_;
  const BatchQueue::Clock clock_;

  std::vector<std::thread> threads_;
};

}  // namespace attention::server
