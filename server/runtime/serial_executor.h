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
  // `max_waiting` functions of Run may wait while another runs. The thread's nice value is raised to `nice`: of work
  // that nobody should notice, 19, which gets what other threads leave over.
  explicit SerialExecutor(size_t max_waiting, int nice = 0);

  // Runs what was taken, then ends the thread.
  ~SerialExecutor();

  SerialExecutor(const SerialExecutor&) = delete;
  SerialExecutor& operator=(const SerialExecutor&) = delete;

  // Takes `function`, and runs it exactly once, if and only if the result is OK. UNAVAILABLE if too many wait. Never
  // blocks.
  absl::Status Run(absl::AnyInvocable<void()>& function);

  // Takes `function` however many wait: for the steps of what was accepted already, whose number others bound. Never
  // blocks.
  void RunAlways(absl::AnyInvocable<void()> function);

 private:
  struct Waiting {
    absl::AnyInvocable<void()> function;
    bool counts = true;  // towards max_waiting_
  };

  void Loop(int nice);
  bool woken() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return stopping_ || !waiting_.empty(); }

  const size_t max_waiting_;  // constant after construction

  absl::Mutex mu_;
  std::deque<Waiting> waiting_ ABSL_GUARDED_BY(mu_);
  size_t counted_ ABSL_GUARDED_BY(mu_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;

  std::thread thread_;  // last, since it begins to run at once
};

}  // namespace attention::server
