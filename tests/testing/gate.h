#pragma once

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/batching/batch_runner.h"

namespace attention::test {

// Holds batches before they are computed until a test lets them go, so that it can act while calls are under way.
// Open at first. Thread-safe. Must outlive the server that it stands in.
class Gate {
 public:
  // `compute` behind this gate.
  server::ComputeFn Before(server::ComputeFn compute);

  // Batches that come from now on are held.
  void Close();

  // Lets go what is held, and what comes.
  void Open();

  // Waits until so many batches are held at once.
  void AwaitHeld(int batches = 1);

  // Batches that came since the start, held or not.
  int batches() const;

 private:
  void Pass();

  mutable absl::Mutex mu_;
  bool open_ ABSL_GUARDED_BY(mu_) = true;
  int held_ ABSL_GUARDED_BY(mu_) = 0;
  int batches_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace attention::test
