#include "server/runtime/periodic_task.h"

#include <utility>

namespace attention::server {

PeriodicTask::PeriodicTask(SerialExecutor* executor, absl::Duration interval, std::function<void()> function)
    : executor_(executor), interval_(interval), function_(std::move(function)), thread_([this] { Loop(); }) {}

PeriodicTask::~PeriodicTask() {
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  thread_.join();
}

void PeriodicTask::Loop() {
  while (true) {
    {
      absl::MutexLock lock(&mu_);
      if (mu_.AwaitWithTimeout(absl::Condition(&stopping_), interval_)) return;
      running_ = true;
    }
    executor_->RunAlways([this] { RunOnce(); });
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(
        +[](bool* running) { return !*running; }, &running_));
  }
}

void PeriodicTask::RunOnce() {
  function_();
  absl::MutexLock lock(&mu_);
  running_ = false;
}

}  // namespace attention::server
