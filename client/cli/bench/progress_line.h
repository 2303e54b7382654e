#pragma once

#include <thread>

#include "absl/synchronization/notification.h"
#include "client/cli/bench/load_recorder.h"

namespace attention::cli {

// Writes one line to standard error each second while it lives, over the last one, and wipes it at the end. Does
// nothing where standard error is no terminal.
class ProgressLine {
 public:
  // `recorder` must outlive this.
  explicit ProgressLine(const LoadRecorder& recorder);
  ~ProgressLine();

  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

 private:
  void Run();

  const LoadRecorder& recorder_;
  absl::Notification stop_;
  std::thread thread_;
};

}  // namespace attention::cli
