#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace attention::cli {

// "ocr  [=========>          ]  45 %  1.2 GiB of 2.6 GiB, 318.2 MiB/s". After the last byte, which the server still has
// to load, it says so.
std::string UploadProgressText(const std::string& name, int64_t sent, int64_t total, std::chrono::nanoseconds elapsed);

// Shows an upload as one line on standard error, each time over the last one, and wipes it at the end. Does nothing
// where standard error is no terminal.
class UploadProgress {
 public:
  explicit UploadProgress(std::string name);
  ~UploadProgress();

  UploadProgress(const UploadProgress&) = delete;
  UploadProgress& operator=(const UploadProgress&) = delete;

  // At most ten times a second, and at the end, something is written.
  void Show(int64_t sent, int64_t total);

 private:
  using Clock = std::chrono::steady_clock;

  const std::string name_;
  const bool terminal_;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point next_ = start_;
};

}  // namespace attention::cli
