#include "server/observability/logging.h"

#include <grpc/support/log.h>
#include <spdlog/formatter.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "server/observability/stderr_sink.h"

namespace attention::server {
namespace {

constexpr size_t kMaxLoggedBytes = 256;

std::string Rfc3339(spdlog::log_clock::time_point time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::FromChrono(time), absl::UTCTimeZone());
}

// A field of a message, such as version=3 or checkpoint="a b".
struct LogField {
  absl::string_view key, value;
};

bool IsKey(absl::string_view text) {
  return !text.empty() && absl::c_all_of(text, [](char c) { return absl::ascii_islower(c) || c == '_'; });
}

// Takes the field at the beginning of `text`, which is not changed if there is none.
std::optional<LogField> TakeField(absl::string_view& text) {
  const absl::string_view key = text.substr(0, text.find('='));
  if (!IsKey(key) || key.size() == text.size()) return std::nullopt;
  absl::string_view value = text.substr(key.size() + 1);
  size_t end = value.find(' ');
  if (absl::StartsWith(value, "\"")) {
    end = 1;
    while (end < value.size() && value[end] != '"') end += value[end] == '\\' ? 2 : 1;
    end = std::min(end + 1, value.size());
  }
  value = value.substr(0, end);
  text.remove_prefix(key.size() + 1 + value.size());
  return LogField{key, value};
}

// The fields of a message, which follow each other after some words: uploaded checkpoint="a b" version=3 unchanged.
// What comes after them may be a client's text, and is not searched.
std::vector<LogField> FieldsOf(absl::string_view message) {
  std::vector<LogField> fields;
  while (!message.empty()) {
    const std::optional<LogField> field = TakeField(message);
    if (field) fields.push_back(*field);
    if (!field && !fields.empty()) break;
    const size_t space = message.find(' ');
    message.remove_prefix(space == absl::string_view::npos ? message.size() : space + 1);
  }
  return fields;
}

nlohmann::ordered_json JsonValue(absl::string_view value) {
  int64_t number = 0;
  if (absl::SimpleAtoi(value, &number)) return number;
  std::string text;
  if (absl::ConsumePrefix(&value, "\"") && absl::CUnescape(absl::StripSuffix(value, "\""), &text)) return text;
  return std::string(value);
}

// Writes one JSON object per line: time, level, message and the message's fields. spdlog's own patterns do not escape
// the message.
class JsonFormatter final : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& line) override {
    const auto level = spdlog::level::to_string_view(message.level);
    nlohmann::ordered_json event;
    event["time"] = Rfc3339(message.time);
    event["level"] = std::string(level.data(), level.size());
    event["message"] = std::string(message.payload.data(), message.payload.size());
    for (const LogField& field : FieldsOf({message.payload.data(), message.payload.size()})) {
      if (!event.contains(field.key)) event[std::string(field.key)] = JsonValue(field.value);
    }
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
  auto logger = std::make_shared<spdlog::logger>("", std::make_shared<StderrSink>(STDERR_FILENO));
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
