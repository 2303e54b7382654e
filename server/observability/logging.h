#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace attention::server {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };
enum class LogFormat { kText, kJson };

// Sets up spdlog's default logger, which all of the server logs through: one line an event to standard error, as text
// ("2025-01-31T12:00:00.000Z info  listening on …") or as one JSON object (time, level, message). What gRPC has to say
// is logged the same way. To be called once, before any other thread runs.
void StartLogging(LogLevel level, LogFormat format);

// Text that came from a caller, fit for a log line: control characters and quotes escaped, at most 256 bytes of it.
std::string ForLog(absl::string_view text);

}  // namespace attention::server
