#pragma once

#include <cstddef>
#include <deque>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace attention::server {

// One thread that runs functions one after the other: for work too long for gRPC's threads, on which other calls wait.
// Thread-safe.
class SerialExecutor {
 public:
  // `max_waiting` functions may wait while one runs.
  explicit SerialExecutor(size_t max_waiting);

  // Runs what was taken, then ends the thread.
  ~SerialExecutor();

  SerialExecutor(const SerialExecutor&) = delete;
  SerialExecutor& operator=(const SerialExecutor&) = delete;

  // Takes `function`, and runs it exactly once, if and only if the result is OK. UNAVAILABLE if too many wait. Never
  // blocks.
  absl::Status Run(absl::AnyInvocable<void()>& function);

 private:
  void Loop();
  bool woken() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return stopping_ || !waiting_.empty(); }

  const size_t max_waiting_;  // constant after construction

  absl::Mutex mu_;
  std::deque<absl::AnyInvocable<void()>> waiting_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;

  std::thread thread_;  // last, since it begins to run at once
};

}  // namespace attention::server
