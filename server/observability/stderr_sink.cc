#include "server/observability/stderr_sink.h"

#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "absl/strings/str_cat.h"

namespace attention::server {
namespace {

// How long a line waits for a slow reader. Once a line was dropped, the following ones do not wait.
constexpr int kPatienceMs = 20;

}  // namespace

void StderrSink::sink_it_(const spdlog::details::log_msg& message) {
  if (dropped_ > 0) {
    const std::string text =
        absl::StrCat(dropped_, " log lines were dropped, because standard error was blocked or closed");
    if (!Write({message.logger_name, spdlog::level::warn, text})) {
      ++dropped_;
      return;
    }
    dropped_ = 0;
  }
  if (!Write(message)) ++dropped_;
}

bool StderrSink::Write(const spdlog::details::log_msg& message) {
  spdlog::memory_buf_t line;
  if (inside_line_) line.push_back('\n');
  formatter_->format(message, line);
  return WriteBytes({line.data(), line.size()});
}

// A pipe that poll() calls writable takes PIPE_BUF bytes without blocking, and so do terminals, files and sockets. The
// descriptor itself stays blocking, because other processes may share it.
bool StderrSink::WriteBytes(absl::string_view bytes) {
  while (!bytes.empty()) {
    if (!AwaitWritable()) return false;
    const ssize_t written = write(fd_, bytes.data(), std::min<size_t>(bytes.size(), PIPE_BUF));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    inside_line_ = bytes[static_cast<size_t>(written) - 1] != '\n';
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

bool StderrSink::AwaitWritable() const {
  pollfd polled = {fd_, POLLOUT, 0};
  return poll(&polled, 1, dropped_ > 0 ? 0 : kPatienceMs) > 0 && (polled.revents & POLLOUT) != 0;
}

}  // namespace attention::server
