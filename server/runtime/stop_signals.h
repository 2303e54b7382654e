#pragma once

#include <signal.h>

#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"

namespace attention::server {

// What signals do to the process, from its start to its end:
//
//   SIGTERM, SIGINT while it starts  it ends at once, with exit code 0: nothing was accepted yet
//   SIGTERM, SIGINT while it serves  Wait returns, and the process begins to stop
//   SIGTERM while it stops           nothing
//   SIGINT while it stops            it ends at once
//   SIGHUP, SIGPIPE                  nothing
//
// One thread waits for them. To be created before any other thread, which then inherits the blocked signals.
class StopSignals {
 public:
  StopSignals();

  // Handles the signals that have arrived, and no later ones: they stay blocked.
  ~StopSignals();

  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // The start is complete. Until then, SIGTERM and SIGINT end the process.
  void SetServing() ABSL_LOCKS_EXCLUDED(mu_);

  // Waits for SIGTERM or SIGINT. REQUIRES: SetServing was called.
  void Wait() { stop_.WaitForNotification(); }

 private:
  enum class Phase { kStarting, kServing, kStopping };

  void Loop();
  void Handle(int signal);
  void Stop(int signal) ABSL_LOCKS_EXCLUDED(mu_);

  int signal_fd_ = -1;
  int end_fd_ = -1;  // readable when the loop is to end
  absl::Notification stop_;

  absl::Mutex mu_;
  Phase phase_ ABSL_GUARDED_BY(mu_) = Phase::kStarting;

  std::thread thread_;  // declared last, because it starts in the constructor
};

}  // namespace attention::server
