#include "server/runtime/serial_executor.h"

#include <sys/resource.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace attention::server {

SerialExecutor::SerialExecutor(size_t max_waiting, int nice)
    : max_waiting_(max_waiting), thread_([this, nice] { Loop(nice); }) {}

SerialExecutor::~SerialExecutor() {
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  thread_.join();
}

absl::Status SerialExecutor::Run(absl::AnyInvocable<void()>& function) {
  absl::MutexLock lock(&mu_);
  if (counted_ >= max_waiting_) {
    return absl::UnavailableError(
        absl::StrCat("queue: expected fewer than ", max_waiting_, " waiting calls, got ", counted_));
  }
  waiting_.push_back({std::move(function), true});
  ++counted_;
  return absl::OkStatus();
}

void SerialExecutor::RunAlways(absl::AnyInvocable<void()> function) {
  absl::MutexLock lock(&mu_);
  waiting_.push_back({std::move(function), false});
}

void SerialExecutor::Loop(int nice) {
  // On Linux each thread has its own nice value, addressed by the thread id. Raising it needs no privilege.
  if (nice > 0) setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), nice);
  while (true) {
    absl::AnyInvocable<void()> function;
    {
      absl::MutexLock lock(&mu_);
      mu_.Await(absl::Condition(this, &SerialExecutor::has_work));
      if (waiting_.empty()) return;
      function = std::move(waiting_.front().function);
      if (waiting_.front().counts) --counted_;
      waiting_.pop_front();
    }
    function();
  }
}

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
