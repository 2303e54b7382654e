#include "client/cli/weights/upload_progress.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/weights/weights_report.h"

namespace attention::cli {
namespace {

constexpr int kWidth = 30;
constexpr char kWipe[] = "\r\033[K";

std::string Bar(double part) {
  const int filled = static_cast<int>(part * kWidth);
  std::string bar(filled, '=');
  if (filled < kWidth) bar += '>';
  bar.resize(kWidth, ' ');
  return bar;
}

}  // namespace

std::string UploadProgressText(const std::string& name, int64_t sent, int64_t total, std::chrono::nanoseconds elapsed) {
  const double part = total > 0 ? static_cast<double>(sent) / static_cast<double>(total) : 1;
  const double seconds = std::chrono::duration<double>(elapsed).count();
  const double rate = seconds > 0 ? static_cast<double>(sent) / seconds : 0;
  const std::string then =
      sent < total ? absl::StrCat(FormatBytes(static_cast<int64_t>(rate)), "/s") : std::string("the server loads it");
  return absl::StrFormat("%s  [%s] %3d %%  %s of %s, %s", name, Bar(part), static_cast<int>(part * 100),
                         FormatBytes(sent), FormatBytes(total), then);
}

UploadProgress::UploadProgress(std::string name) : name_(std::move(name)), terminal_(isatty(STDERR_FILENO) != 0) {}

UploadProgress::~UploadProgress() {
  if (terminal_) std::fputs(kWipe, stderr);
}

void UploadProgress::Show(int64_t sent, int64_t total) {
  const Clock::time_point now = Clock::now();
  if (!terminal_ || (now < next_ && sent < total)) return;
  next_ = now + std::chrono::milliseconds(100);
  std::fprintf(stderr, "%s%s", kWipe, UploadProgressText(name_, sent, total, now - start_).c_str());
}

}  // namespace attention::cli
