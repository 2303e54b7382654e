#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/batching/batch_queue.h"
#include "server/batching/task.h"
#include "server/weights/weight_set.h"

namespace attention::test {

// A clock that advances only when a test tells it to. Thread-safe.
class FakeClock {
 public:
  absl::Time now() const {
    absl::MutexLock lock(&mu_);
    return now_;
  }
  void Advance(absl::Duration by) {
    absl::MutexLock lock(&mu_);
    now_ += by;
  }
  // The clock as a function, which must not outlive this.
  std::function<absl::Time()> function() {
    return [this] {
      absl::MutexLock lock(&mu_);
      ++reads_;
      return now_;
    };
  }
  // Waits until that function was called `reads` times in total.
  void AwaitReads(int reads) const {
    absl::MutexLock lock(&mu_);
    const auto reached = [this, reads]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return reads_ >= reads; };
    mu_.Await(absl::Condition(&reached));
  }
  int reads() const {
    absl::MutexLock lock(&mu_);
    return reads_;
  }

 private:
  mutable absl::Mutex mu_;
  int reads_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Time now_ ABSL_GUARDED_BY(mu_) = absl::FromUnixSeconds(1'000'000);
};

inline std::shared_ptr<const server::WeightSet> MakeWeightSet(const std::string& name) {
  auto weight_set = std::make_shared<server::WeightSet>();
  weight_set->name = name;
  return weight_set;
}

// How a task ended. Thread-safe.
class Outcome {
 public:
  void Record(const absl::Status& status, const server::TaskReport& report) {
    absl::MutexLock lock(&mu_);
    ++runs_;
    status_ = status;
    report_ = report;
  }

  // Waits until `done` has run.
  void Await() const {
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(
        +[](const int* runs) { return *runs > 0; }, &runs_));
  }

  // How often `done` has run.
  int runs() const {
    absl::MutexLock lock(&mu_);
    return runs_;
  }
  absl::Status status() const {
    absl::MutexLock lock(&mu_);
    return status_;
  }
  server::TaskReport report() const {
    absl::MutexLock lock(&mu_);
    return report_;
  }

 private:
  mutable absl::Mutex mu_;
  int runs_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status status_ ABSL_GUARDED_BY(mu_) = absl::UnknownError("not done");
  server::TaskReport report_ ABSL_GUARDED_BY(mu_);
};

// Tasks up to this cost are small.
inline constexpr double kSmallCost = server::BatchQueueOptions().max_small_cost;

struct TaskOptions {
  std::shared_ptr<const server::WeightSet> weight_set = nullptr;
  int64_t tokens = 1;  // the rows of its one sequence; tests identify tasks by them
  int32_t priority = 0;
  absl::Time deadline = absl::InfiniteFuture();
  std::optional<double> cost = std::nullopt;                // as many as tokens, unless it is set
  std::shared_ptr<const server::StopToken> stop = nullptr;  // instead of one with `deadline`
};

// A self-attention request without inputs or outputs.
inline std::unique_ptr<server::Task> MakeTask(const TaskOptions& options, std::shared_ptr<Outcome> outcome = nullptr) {
  auto task = std::make_unique<server::Task>();
  task->weight_set = options.weight_set;
  task->call.shape.batch = 1;
  task->call.shape.q_length = options.tokens;
  task->call.shape.sharing = server::InputSharing::kAll;
  task->call.tokens = options.tokens;
  task->call.cost = options.cost.value_or(static_cast<double>(options.tokens));
  task->is_small = task->call.cost <= kSmallCost;
  task->priority = options.priority;
  std::shared_ptr<const server::StopToken> stop = options.stop;
  if (stop == nullptr) stop = std::make_shared<server::StopToken>(options.deadline);
  task->call.stop = stop.get();
  task->done = [outcome = std::move(outcome), stop](const absl::Status& status, const server::TaskReport& report) {
    if (outcome) outcome->Record(status, report);
  };
  return task;
}

// The tokens of each task.
inline std::vector<int64_t> Tokens(const server::Batch& batch) {
  std::vector<int64_t> tokens;
  for (const auto& task : batch.tasks) tokens.push_back(task->call.tokens);
  return tokens;
}

}  // namespace attention::test
