#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace attention::server {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };
enum class LogFormat { kText, kJson };

// Configures spdlog's default logger, which the whole server uses: one line per event on standard error, as text
// ("2025-01-31T12:00:00.000Z info    stopped") or as one JSON object (time, level, message). Events of gRPC are logged
// the same way. A reader that stops reading, or closes the pipe, loses lines, but stops nothing: see StderrSink. To be
// called once, before other threads are started.
void StartLogging(LogLevel level, LogFormat format);

// Makes text from a client safe for a log line: at most its first 256 bytes, with control characters and quotes
// escaped.
std::string ForLog(absl::string_view text);

}  // namespace attention::server
