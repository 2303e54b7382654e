#include "server/observability/logging.h"

#include <grpc/support/log.h>
#include <spdlog/formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/time/time.h"

namespace attention::server {
namespace {

constexpr size_t kMaxLoggedBytes = 256;

std::string Rfc3339(spdlog::log_clock::time_point time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::FromChrono(time), absl::UTCTimeZone());
}

// Writes one JSON object per line. spdlog's own patterns do not escape the message.
class JsonFormatter final : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& line) override {
    const auto level = spdlog::level::to_string_view(message.level);
    nlohmann::ordered_json event;
    event["time"] = Rfc3339(message.time);
    event["level"] = std::string(level.data(), level.size());
    event["message"] = std::string(message.payload.data(), message.payload.size());
    const std::string text = event.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    line.append(text.data(), text.data() + text.size());
  }

  std::unique_ptr<spdlog::formatter> clone() const override { return std::make_unique<JsonFormatter>(); }
};

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      break;
  }
  return spdlog::level::off;
}

// Most of gRPC's errors are peers that disconnected, so they are logged as warnings.
void LogGrpcEvent(gpr_log_func_args* event) {
  const bool error = event->severity == GPR_LOG_SEVERITY_ERROR;
  spdlog::log(error ? spdlog::level::warn : spdlog::level::debug, "grpc: {}", event->message);
}

}  // namespace

void StartLogging(LogLevel level, LogFormat format) {
  auto logger = std::make_shared<spdlog::logger>("", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  if (format == LogFormat::kJson) {
    logger->set_formatter(std::make_unique<JsonFormatter>());
  } else {
    logger->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %-7l %v", spdlog::pattern_time_type::utc);
  }
  logger->set_level(ToSpdlog(level));
  spdlog::set_default_logger(std::move(logger));
  gpr_set_log_function(LogGrpcEvent);
}

std::string ForLog(absl::string_view text) { return absl::Utf8SafeCEscape(text.substr(0, kMaxLoggedBytes)); }

}  // namespace attention::server
