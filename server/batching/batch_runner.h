#pragma once

#include <functional>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/types/span.h"
#include "server/batching/batch_queue.h"
#include "server/batching/task.h"
#include "server/engine/attention_call.h"
#include "server/weights/weight_set.h"

namespace attention::server {

// Computes the calls of one batch, all of them with this weight set, which is the one that their requests named, or one
// without a layer if they named none. Called from every runner thread at once. An error goes to all tasks of the batch,
// so requests must have been validated before they were queued.
using ComputeFn =
    std::function<absl::Status(const WeightSet& weight_set, absl::Span<const AttentionCall* const> calls)>;

struct BatchRunnerOptions {
  // Threads that take batches. One is enough where one batch keeps all cores busy. At least 1.
  int num_threads = 1;

  // That of the queue.
  BatchQueue::Clock clock = absl::Now;
};

// Owns the threads that take batches from the queue, compute them and end their tasks.
//
// Tasks whose deadline passed or that were cancelled since they were queued are ended without being computed. If
// `compute` fails, the tasks of that batch alone get its status. An exception is logged and becomes RESOURCE_EXHAUSTED
// (memory ran out) or INTERNAL, with a fixed text.
class BatchRunner {
 public:
  // Starts at once. `queue` must outlive the runner.
  BatchRunner(BatchQueue* queue, ComputeFn compute, const BatchRunnerOptions& options = {});

  // Waits until everything that was queued is done. REQUIRES: the queue was closed, else this never returns.
  ~BatchRunner();

  BatchRunner(const BatchRunner&) = delete;
  BatchRunner& operator=(const BatchRunner&) = delete;

 private:
  void Loop();
  void Run(Batch batch);
  absl::Status Compute(const Batch& batch);

  // Constant after construction.
  BatchQueue* const queue_;
  const ComputeFn compute_;
  const BatchQueue::Clock clock_;

  std::vector<std::thread> threads_;
};

}  // namespace attention::server
