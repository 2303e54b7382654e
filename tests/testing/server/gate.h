#pragma once

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/batching/batch_runner.h"

namespace attention::test {

// Blocks batches before they are computed, so that a test can act while calls are active. Initially open. Thread-safe.
// Must outlive the server that uses it.
class Gate {
 public:
  // A function that passes the gate and then calls `compute`.
  server::ComputeFn Before(server::ComputeFn compute);

  // Blocks all later batches.
  void Close();

  // Releases the blocked batches and lets later ones pass.
  void Open();

  // Waits until `batches` batches are blocked at the same time.
  void AwaitHeld(int batches = 1);

  // All batches that have reached the gate, blocked or not.
  int batches() const;

 private:
  void Pass();

  mutable absl::Mutex mu_;
  bool open_ ABSL_GUARDED_BY(mu_) = true;
  int held_ ABSL_GUARDED_BY(mu_) = 0;
  int batches_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace attention::test
