#pragma once

#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/runtime/serial_executor.h"

namespace attention::server {

// Has an executor run a function again and again, `interval` after it last ended.
class PeriodicTask {
 public:
  // `executor` must outlive this.
  PeriodicTask(SerialExecutor* executor, absl::Duration interval, std::function<void()> function);

  // Waits for a run that was begun; there are none after it.
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
  bool running_ ABSL_GUARDED_BY(mu_) = false;  // or waiting for its turn

  std::thread thread_;  // last, since it begins to run at once
};

}  // namespace attention::server
