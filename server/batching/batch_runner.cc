#include "server/batching/batch_runner.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/runtime/catch_exceptions.h"
#include "spdlog/spdlog.h"

namespace attention::server {
namespace {

// Ends the tasks that expired or were cancelled since the batch was closed.
void EndDead(Batch& batch, absl::Time now) {
  std::erase_if(batch.tasks, [&](std::unique_ptr<Task>& task) {
    const absl::Status status = CheckAlive(*task, now);
    if (status.ok()) return false;
    EndUncomputed(std::move(task), status, now);
    return true;
  });
}

TaskReport Report(const Batch& batch, absl::Duration compute_time) {
  TaskReport report;
  report.compute_time = compute_time;
  report.batch_requests = static_cast<int64_t>(batch.tasks.size());
  for (const std::unique_ptr<Task>& task : batch.tasks) report.batch_tokens += task->call.tokens;
  report.batch_close_reason = batch.close_reason;
  return report;
}

// The cost of the tasks that were computed to their end.
double LiveCost(const Batch& batch, absl::Time now) {
  double cost = 0;
  for (const std::unique_ptr<Task>& task : batch.tasks) cost += CheckAlive(*task, now).ok() ? task->call.cost : 0;
  return cost;
}

constexpr absl::Duration kPauseWithoutMemory = absl::Milliseconds(1);

}  // namespace

BatchRunner::BatchRunner(BatchQueue* queue, ComputeFn compute, const BatchRunnerOptions& options)
    : queue_(queue), compute_(std::move(compute)), clock_(options.clock) {
  for (int i = 0; i < options.num_threads; ++i) threads_.emplace_back([this] { Loop(LaneChoice::kAll); });
  for (int i = 0; i < options.num_small_threads; ++i) threads_.emplace_back([this] { Loop(LaneChoice::kSmall); });
}

BatchRunner::~BatchRunner() {
  for (std::thread& thread : threads_) thread.join();
}

void BatchRunner::Loop(LaneChoice choice) {
  while (true) {
    std::optional<Batch> batch;
    const absl::Status taken = CatchExceptions("taking a batch", [&] {
      batch = queue_->Pop(choice);
      return absl::OkStatus();
    });
    if (!taken.ok()) {
      absl::SleepFor(kPauseWithoutMemory);
    } else if (batch) {
      Run(*std::move(batch));
    } else {
      return;
    }
  }
}

void BatchRunner::Run(Batch batch) {
  const absl::Time start = clock_();
  EndDead(batch, start);
  const absl::Status status = batch.tasks.empty() ? absl::OkStatus() : Compute(batch);
  const absl::Time end = clock_();
  queue_->Finished(batch, status.ok() ? LiveCost(batch, end) : 0);
  TaskReport report = Report(batch, end - start);
  for (std::unique_ptr<Task>& task : batch.tasks) {
    report.queue_time = batch.close_time - task->enqueue_time;
    task->done(status.ok() ? CheckAlive(*task, end) : status, report);
    task.reset();
  }
}

absl::Status BatchRunner::Compute(const Batch& batch) {
  const std::string& name = batch.weight_set->name;
  const std::string what = absl::StrCat("computing a batch of ", batch.tasks.size(), " requests ",
                                        name.empty() ? "without a weight set" : absl::StrCat("for weight set ", name));
  return CatchExceptions(what, [&] {
    std::vector<const AttentionCall*> calls;
    calls.reserve(batch.tasks.size());
    for (const std::unique_ptr<Task>& task : batch.tasks) calls.push_back(&task->call);
    absl::Status status = compute_(*batch.weight_set, calls);
    if (!status.ok()) spdlog::error("{} failed: {}", what, status.ToString());
    return status;
  });
}

}  // namespace attention::server
