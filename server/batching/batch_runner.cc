#include "server/batching/batch_runner.h"

#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/string_view.h"
#include "spdlog/spdlog.h"

namespace attention::server {
namespace {

void LogFailure(const Batch& batch, absl::string_view what) {
  spdlog::error("weight set {}: a batch of {} requests failed: {}", batch.weight_set->name, batch.tasks.size(),
                std::string_view(what.data(), what.size()));
}

absl::Status InternalError() { return absl::InternalError("the engine failed; the server's log has the details"); }

// Ends the tasks that died since the batch was closed.
void DropDead(Batch& batch, absl::Time now) {
  std::erase_if(batch.tasks, [&](std::unique_ptr<Task>& task) {
    const absl::Status status = Liveness(*task, now);
    if (status.ok()) return false;
    EndUncomputed(std::move(task), status, now);
    return true;
  });
}

TaskReport Report(const Batch& batch, absl::Duration compute_time) {
  TaskReport report;
  report.compute_time = compute_time;
  report.batch_requests = static_cast<int64_t>(batch.tasks.size());
  for (const std::unique_ptr<Task>& task : batch.tasks) report.batch_tokens += task->call.tokens();
  report.batch_close_reason = batch.close_reason;
  return report;
}

}  // namespace

BatchRunner::BatchRunner(BatchQueue* queue, ComputeFn compute, const BatchRunnerOptions& options)
    : queue_(queue), compute_(std::move(compute)), clock_(options.clock) {
  for (int i = 0; i < options.num_threads; ++i) threads_.emplace_back([this] { Loop(); });
}

BatchRunner::~BatchRunner() {
  for (std::thread& thread : threads_) thread.join();
}

void BatchRunner::Loop() {
  while (std::optional<Batch> batch = queue_->Pop()) Run(*std::move(batch));
}

void BatchRunner::Run(Batch batch) {
  const absl::Time start = clock_();
  DropDead(batch, start);
  if (batch.tasks.empty()) return;
  const absl::Status status = Compute(batch);
  TaskReport report = Report(batch, clock_() - start);
  for (std::unique_ptr<Task>& task : batch.tasks) {
    report.queue_time = batch.close_time - task->enqueue_time;
    task->done(status, report);
    task.reset();  // gives its bytes back before the next one ends
  }
}

absl::Status BatchRunner::Compute(const Batch& batch) {
  try {
    std::vector<const AttentionCall*> calls;
    calls.reserve(batch.tasks.size());
    for (const std::unique_ptr<Task>& task : batch.tasks) calls.push_back(&task->call);
    absl::Status status = compute_(*batch.weight_set, calls);
    if (!status.ok()) LogFailure(batch, status.message());
    return status;
  } catch (const std::bad_alloc&) {
    LogFailure(batch, "out of memory");
    return absl::ResourceExhaustedError("memory: ran out while the batch was computed");
  } catch (const std::exception& error) {
    LogFailure(batch, error.what());
    return InternalError();
  } catch (...) {
    LogFailure(batch, "unknown exception");
    return InternalError();
  }
}

}  // namespace attention::server
