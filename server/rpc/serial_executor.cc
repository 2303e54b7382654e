#include "server/rpc/serial_executor.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace attention::server {

SerialExecutor::SerialExecutor(size_t max_waiting) : max_waiting_(max_waiting), thread_([this] { Loop(); }) {}

SerialExecutor::~SerialExecutor() {
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  thread_.join();
}

absl::Status SerialExecutor::Run(absl::AnyInvocable<void()>& function) {
  absl::MutexLock lock(&mu_);
  if (waiting_.size() >= max_waiting_) {
    return absl::UnavailableError(
        absl::StrCat(waiting_.size(), " such calls wait already, wanted fewer than ", max_waiting_));
  }
  waiting_.push_back(std::move(function));
  return absl::OkStatus();
}

void SerialExecutor::Loop() {
  while (true) {
    absl::AnyInvocable<void()> function;
    {
      absl::MutexLock lock(&mu_);
      mu_.Await(absl::Condition(this, &SerialExecutor::woken));
      if (waiting_.empty()) return;
      function = std::move(waiting_.front());
      waiting_.pop_front();
    }
    function();
  }
}

}  // namespace attention::server
