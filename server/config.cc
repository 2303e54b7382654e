#include "server/config.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "server/checkpoint/field_error.h"
#include "server/listen_address.h"

namespace attention::server {
namespace {

// One flag. The parser stores the value; for invalid text it returns what it expected: "a whole number".
struct Flag {
  using Parser = std::function<std::optional<std::string>(const std::string& text)>;

  std::string name;  // without dashes
  std::string type;
  std::string default_text;
  std::string help;
  Parser parse;
  bool is_switch = false;  // the value may be omitted on the command line, which means "true"
};

Flag::Parser Text(std::string* value) {
  return [value](const std::string& text) -> std::optional<std::string> {
    *value = text;
    return std::nullopt;
  };
}

template <typename Integer>
Flag::Parser Number(Integer* value) {
  return [value](const std::string& text) -> std::optional<std::string> {
    if (absl::SimpleAtoi(text, value)) return std::nullopt;
    return "a whole number";
  };
}

Flag::Parser Size(int64_t* value) {
  return [value](const std::string& text) -> std::optional<std::string> {
    static constexpr std::pair<absl::string_view, int> kUnits[] = {{"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}};
    absl::string_view number = text;
    int64_t factor = 1;
    for (const auto& [unit, shift] : kUnits) {
      if (absl::ConsumeSuffix(&number, unit)) factor = int64_t{1} << shift;
    }
    int64_t count = 0;
    if (absl::SimpleAtoi(number, &count) && !__builtin_mul_overflow(count, factor, value)) return std::nullopt;
    return "a size such as 1048576, 1024KiB, 1MiB or 1GiB";
  };
}

Flag::Parser Switch(bool* value) {
  return [value](const std::string& text) -> std::optional<std::string> {
    if (text != "true" && text != "false") return "true or false";
    *value = text == "true";
    return std::nullopt;
  };
}

Flag::Parser Duration(absl::Duration* value) {
  return [value](const std::string& text) -> std::optional<std::string> {
    if (absl::ParseDuration(text, value)) return std::nullopt;
    return "a duration such as 0, 500us, 2ms, 1.5s or 1m";
  };
}

template <typename Enum>
Flag::Parser OneOf(std::vector<std::pair<std::string, Enum>> names, Enum* value) {
  return [names = std::move(names), value](const std::string& text) -> std::optional<std::string> {
    std::string expected;
    for (const auto& [name, member] : names) {
      if (text == name) {
        *value = member;
        return std::nullopt;
      }
      absl::StrAppend(&expected, expected.empty() ? "" : ", ", name);
    }
    return "one of " + expected;
  };
}

std::vector<Flag> BatchingFlags(Config& config) {
  return {
      {"batch-timeout", "DURATION", "0",
       "How long a free compute thread waits for more requests to fill a batch; 0: not at all",
       Duration(&config.batch_timeout)},
      {"max-batch-tokens", "N", "16384", "Maximum tokens (input rows) in one batch; a larger request runs alone",
       Number(&config.max_batch_tokens)},
      {"max-batch-requests", "N", "256", "Maximum requests in one batch", Number(&config.max_batch_requests)},
      {"max-queued-requests", "N", "1024", "Maximum waiting requests; further ones get UNAVAILABLE",
       Number(&config.max_queued_requests)},
      {"max-queue-delay", "DURATION", "10s",
       "Longest expected wait in the queue; requests that would wait longer get UNAVAILABLE",
       Duration(&config.max_queue_delay)},
      {"max-inflight-bytes", "SIZE", "2GiB",
       "Maximum memory of requests and replies in progress; further requests get UNAVAILABLE",
       Size(&config.max_inflight_bytes)},
      {"max-request-cost", "N", "2000000000000",
       "Maximum multiply-adds of one request; above it RESOURCE_EXHAUSTED; 0: no limit",
       Number(&config.max_request_cost)},
  };
}

std::vector<Flag> OtherFlags(Config& config) {
  return {
      {"weights-dir", "DIR", "",
       "Folder of checkpoints (*.safetensors, *.msgpack, *.npz), which are loaded at start; uploads are stored there "
       "too",
       Text(&config.weights_dir)},
      {"strict-weights", "", "false", "Do not start unless every checkpoint in the folder can be loaded",
       Switch(&config.strict_weights), true},
      {"watch-weights", "", "false",
       "Check the folder once a second: load new and changed checkpoints, unload deleted ones",
       Switch(&config.watch_weights), true},
      {"threads", "N", "0", "Compute threads; 0: one for each CPU that the process may use", Number(&config.threads)},
      {"small-threads", "N", "-1",
       "Additional threads for small requests, which then do not wait for expensive ones; -1: half of --threads",
       Number(&config.small_threads)},
      {"max-message-bytes", "SIZE", "256MiB", "Maximum size of a request and of a reply, up to 2147483647",
       Size(&config.max_message_bytes)},
      {"max-weight-bytes", "SIZE", "0", "Maximum memory of all weight sets together, as float32; 0: no limit",
       Size(&config.max_weight_bytes)},
      {"grace", "DURATION", "10s", "How long active calls may take to finish after SIGTERM", Duration(&config.grace)},
      {"log-level", "LEVEL", "info", "Minimum level of logged events: debug, info, warning, error or off",
       OneOf<LogLevel>({{"debug", LogLevel::kDebug},
                        {"info", LogLevel::kInfo},
                        {"warning", LogLevel::kWarning},
                        {"error", LogLevel::kError},
                        {"off", LogLevel::kOff}},
                       &config.log_level)},
      {"log-format", "FORMAT", "text", "text, or json: one object per line",
       OneOf<LogFormat>({{"text", LogFormat::kText}, {"json", LogFormat::kJson}}, &config.log_format)},
  };
}

std::string EnvironmentName(absl::string_view flag) {
  return absl::StrCat("ATTENTION_", absl::AsciiStrToUpper(absl::StrReplaceAll(flag, {{"-", "_"}})));
}

// CLI11 lets the file override the environment, and calls an unknown key an INI error. Here the environment, which is
// set when the process starts, overrides the file.
class SettingsFile final : public CLI::ConfigTOML {
 public:
  explicit SettingsFile(const CLI::App* app) : app_(app) {}

  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    std::vector<CLI::ConfigItem> kept;
    for (CLI::ConfigItem& item : CLI::ConfigTOML::from_config(input)) {
      if (!item.parents.empty() || app_->get_option_no_throw("--" + item.name) == nullptr) {
        throw CLI::ValidationError("--config", "expected a known setting, got " + item.fullname());
      }
      const char* value = std::getenv(EnvironmentName(item.name).c_str());
      if (value == nullptr || *value == '\0') kept.push_back(std::move(item));
    }
    return kept;
  }

 private:
  const CLI::App* const app_;
};

void AddFlag(const Flag& flag, CLI::App& app) {
  const auto parse = [flag](const std::string& text) {
    const std::optional<std::string> expected = flag.parse(text);
    if (expected) throw CLI::ValidationError("--" + flag.name, "expected " + *expected + ", got \"" + text + "\"");
  };
  CLI::Option* option = app.add_option_function<std::string>("--" + flag.name, parse, flag.help)
                            ->type_name(flag.type)
                            ->default_str(flag.default_text)
                            ->envname(EnvironmentName(flag.name));
  // The first call makes "true" the value of a bare flag, the second allows an explicit value.
  if (flag.is_switch) option->expected(0)->expected(0, 1);
}

void AddFlags(Config& config, CLI::App& app) {
  app.add_option("--listen", config.listen, "Address to listen on, HOST:PORT or unix:PATH; can be repeated")
      ->type_name("ADDRESS")
      ->default_str(config.listen.front())
      ->delimiter(',')
      ->allow_extra_args(false)
      ->envname(EnvironmentName("listen"));
  for (const Flag& flag : OtherFlags(config)) AddFlag(flag, app);
  for (const Flag& flag : BatchingFlags(config)) AddFlag(flag, app);
  app.set_config("--config", "", "TOML file with any of these settings, such as max-batch-tokens = 8192")
      ->type_name("FILE");
  app.config_formatter(std::make_shared<SettingsFile>(&app));
  app.set_version_flag("--version", "attention_server " ATTENTION_VERSION);
}

absl::Status CheckAddresses(const std::vector<std::string>& listen) {
  if (listen.empty()) return FieldError("--listen", "at least one address", "none");
  std::set<std::string> seen;
  for (const std::string& address : listen) {
    if (auto status = CheckListenAddress(address); !status.ok()) return status;
    if (!seen.insert(address).second) {
      return FieldError("--listen", "distinct addresses", absl::StrCat(address, " twice"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckRange(absl::string_view flag, int64_t value, int64_t min, int64_t max) {
  if (value >= min && value <= max) return absl::OkStatus();
  return FieldError(flag, absl::StrCat(min, " to ", max), value);
}

absl::Status CheckDuration(absl::string_view flag, absl::Duration value, absl::Duration max) {
  if (value >= absl::ZeroDuration() && value <= max) return absl::OkStatus();
  return FieldError(flag, absl::StrCat("0 to ", absl::FormatDuration(max)), absl::FormatDuration(value));
}

absl::Status CheckRanges(const Config& config) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  for (const absl::Status& status : {
           CheckRange("--threads", config.threads, 0, 1024),
           CheckRange("--small-threads", config.small_threads, -1, 1024),
           CheckRange("--max-batch-tokens", config.max_batch_tokens, 1, kMax),
           CheckRange("--max-batch-requests", config.max_batch_requests, 1, kMax),
           CheckRange("--max-queued-requests", config.max_queued_requests, 1, kMax),
           CheckRange("--max-inflight-bytes", config.max_inflight_bytes, 1, kMax),
           CheckRange("--max-message-bytes", config.max_message_bytes, 4096, std::numeric_limits<int32_t>::max()),
           CheckRange("--max-weight-bytes", config.max_weight_bytes, 0, kMax),
           CheckRange("--max-request-cost", config.max_request_cost, 0, kMax),
           CheckDuration("--max-queue-delay", config.max_queue_delay, absl::InfiniteDuration()),
           CheckDuration("--batch-timeout", config.batch_timeout, absl::Minutes(1)),
           CheckDuration("--grace", config.grace, absl::InfiniteDuration()),
       }) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CommandLine> ParseConfig(absl::Span<const std::string> args) {
  CommandLine result;
  CLI::App app("Serves multi-head dot-product attention over gRPC.", "attention_server");
  try {
    AddFlags(result.config, app);
    app.allow_extras();  // reported below, because CLI11's text does not start with the flag
    // CLI11 expects the arguments in reverse order.
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));
  } catch (const CLI::CallForHelp&) {
    result.text = app.help();
    return result;
  } catch (const CLI::CallForVersion& version) {
    result.text = absl::StrCat(version.what(), "\n");
    return result;
  } catch (const CLI::FileError& error) {
    return absl::InvalidArgumentError(absl::StrCat("--config: ", error.what()));
  } catch (const CLI::Error& error) {
    return absl::InvalidArgumentError(error.what());
  }
  if (!app.remaining().empty()) {
    return absl::InvalidArgumentError(absl::StrCat(app.remaining().front(), ": unknown argument"));
  }
  if (auto status = CheckConfig(result.config); !status.ok()) return status;
  return result;
}

absl::Status CheckConfig(const Config& config) {
  if (auto status = CheckAddresses(config.listen); !status.ok()) return status;
  if (auto status = CheckRanges(config); !status.ok()) return status;
  if (config.max_inflight_bytes < config.max_message_bytes) {
    // Otherwise the largest message could never be accepted.
    return FieldError("--max-inflight-bytes", absl::StrCat("at least --max-message-bytes ", config.max_message_bytes),
                      config.max_inflight_bytes);
  }
  return absl::OkStatus();
}

}  // namespace attention::server
