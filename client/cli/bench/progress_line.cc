#include "client/cli/bench/progress_line.h"

#include <unistd.h>

#include <cstdio>

#include "absl/time/time.h"

namespace attention::cli {

ProgressLine::ProgressLine(const LoadRecorder& recorder) : recorder_(recorder) {
  if (isatty(STDERR_FILENO) != 0) thread_ = std::thread([this] { Run(); });
}

ProgressLine::~ProgressLine() {
  stop_.Notify();
  if (thread_.joinable()) thread_.join();
}

void ProgressLine::Run() {
  int64_t last = 0;
  for (int second = 1; !stop_.WaitForNotificationWithTimeout(absl::Seconds(1)); ++second) {
    const LoadRecorder::Progress now = recorder_.progress();
    std::fprintf(stderr, "\r\033[K%d s: %lld requests, %lld in the last second, %lld in flight, %lld errors", second,
                 static_cast<long long>(now.requests), static_cast<long long>(now.requests - last),
                 static_cast<long long>(now.in_flight), static_cast<long long>(now.errors));
    last = now.requests;
  }
  std::fputs("\r\033[K", stderr);
}

}  // namespace attention::cli
