#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace attention::server {

// One thread that runs functions in order. For work that takes too long for gRPC's threads, where it would delay other
// calls. Thread-safe.
class SerialExecutor {
 public:
  // At most `max_waiting` functions of Run wait while another one runs. `nice` is the nice value of the thread; 19 lets
  // it use only the CPU time that other threads leave.
  explicit SerialExecutor(size_t max_waiting, int nice = 0);

  // Runs all accepted functions, then joins the thread.
  ~SerialExecutor();

  SerialExecutor(const SerialExecutor&) = delete;
  SerialExecutor& operator=(const SerialExecutor&) = delete;

  // Takes `function` and later runs it exactly once, if and only if the result is OK. UNAVAILABLE if too many functions
  // are waiting. Never blocks.
  absl::Status Run(absl::AnyInvocable<void()>& function);

  // Takes `function` regardless of how many are waiting, and does not count it. For the further steps of accepted work,
  // whose number the caller limits. Never blocks.
  void RunAlways(absl::AnyInvocable<void()> function);

 private:
  struct Waiting {
    absl::AnyInvocable<void()> function;
    bool counts = true;  // towards max_waiting_
  };

  void Loop(int nice);
  bool has_work() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return stopping_ || !waiting_.empty(); }

  const size_t max_waiting_;  // constant after construction

  absl::Mutex mu_;
  std::deque<Waiting> waiting_ ABSL_GUARDED_BY(mu_);
  size_t counted_ ABSL_GUARDED_BY(mu_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;

  std::thread thread_;  // declared last, because it starts in the constructor
};

// Runs a function on an executor repeatedly, each time `interval` after the previous run has ended.
class PeriodicTask {
 public:
  // `executor` must outlive this.
  PeriodicTask(SerialExecutor* executor, absl::Duration interval, std::function<void()> function);

  // Waits for a run that has been queued or started. No run starts afterwards.
  ~PeriodicTask();

  PeriodicTask(const PeriodicTask&) = delete;
  PeriodicTask& operator=(const PeriodicTask&) = delete;

 private:
  void Loop();
  void RunOnce();

  // Constant after construction.
  SerialExecutor* const executor_;
  const absl::Duration interval_;
  const std::function<void()> function_;

  absl::Mutex mu_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  bool running_ ABSL_GUARDED_BY(mu_) = false;  // or queued on the executor

  std::thread thread_;  // declared last, because it starts in the constructor
};

}  // namespace attention::server
