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
    return absl::UnavailableError(absl::StrCat(counted_, " such calls wait already, wanted fewer than ", max_waiting_));
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
  // On Linux a thread has a nice value of its own, which goes by its id. It may always be raised.
  if (nice > 0) setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), nice);
  while (true) {
    absl::AnyInvocable<void()> function;
    {
      absl::MutexLock lock(&mu_);
      mu_.Await(absl::Condition(this, &SerialExecutor::woken));
      if (waiting_.empty()) return;
      function = std::move(waiting_.front().function);
      if (waiting_.front().counts) --counted_;
      waiting_.pop_front();
    }
    function();
  }
}

}  // namespace attention::server
