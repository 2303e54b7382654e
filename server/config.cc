#include "server/config.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "server/checkpoint/field_error.h"
#include "server/connections/listen_address.h"

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
    const std::string word = absl::AsciiStrToLower(text);
    const bool on = word == "true" || word == "1" || word == "yes" || word == "on";
    if (!on && word != "false" && word != "0" && word != "no" && word != "off") return "true or false";
    *value = on;
    return std::nullopt;
  };
}

Flag::Parser Octal(std::optional<int>* value) {
  return [value](const std::string& text) -> std::optional<std::string> {
    int mode = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), mode, 8);
    if (error != std::errc() || end != text.data() + text.size() || mode < 0 || mode > 0777) {
      return "octal permissions of 0 to 0777, such as 0660";
    }
    *value = mode;
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
      {"max-weight-bytes", "SIZE", "0",
       "Maximum memory of all weight sets together, as float32; 0: three quarters of the memory of the control "
       "group, or of the machine",
       Size(&config.max_weight_bytes)},
      {"keep-versions", "N", "2", "Versions of a checkpoint that are kept besides those with an alias",
       Number(&config.keep_versions)},
      {"max-weight-storage", "SIZE", "0", "Maximum disk space of uploads; 0: no limit",
       Size(&config.max_weight_storage)},
      {"upload-idle-timeout", "DURATION", "60s", "How long an upload may send nothing before it is ended",
       Duration(&config.upload_idle_timeout)},
      {"max-connections", "N", "4096", "Maximum open connections; further ones are closed at once",
       Number(&config.max_connections)},
      {"max-connection-age", "DURATION", "0",
       "Age at which a connection is closed, so that clients spread over servers; its calls may finish within --grace; "
       "0: none is",
       Duration(&config.max_connection_age)},
      {"unix-mode", "MODE", "", "Permissions of unix sockets, such as 0660; default: as the umask says",
       Octal(&config.unix_mode)},
      {"grace", "DURATION", "10s",
       "How long active calls may take to finish after SIGTERM or SIGINT; SIGINT during that time ends the process at "
       "once",
       Duration(&config.grace)},
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

// The line of the file of --config that sets a value, "server.toml:3", by the name of the flag.
using Places = std::map<std::string, std::string>;

// The number of the first line of `text` that sets `name`. 0 if there is none.
int LineOf(absl::string_view text, absl::string_view name) {
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    const absl::string_view key = line.substr(0, line.find('='));
    if (absl::StripAsciiWhitespace(key) == name) return number;
  }
  return 0;
}

// CLI11 lets the file override the environment, and calls an unknown key an INI error. Here the environment, which is
// set when the process starts, overrides the file.
class SettingsFile final : public CLI::ConfigTOML {
 public:
  // Fills `places` with the settings that are taken from the file.
  SettingsFile(const CLI::App* app, Places* places) : app_(app), places_(places) {}

  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    const std::string text{std::istreambuf_iterator<char>(input), std::istreambuf_iterator<char>()};
    std::istringstream again(text);
    std::vector<CLI::ConfigItem> kept;
    for (CLI::ConfigItem& item : CLI::ConfigTOML::from_config(again)) {
      if (item.name == "++" || item.name == "--") continue;  // CLI11's marks of the beginning and end of a section
      const CLI::Option* option = app_->get_option_no_throw("--" + item.name);
      const std::string place = Place(text, item);
      if (!item.parents.empty() || option == nullptr) {
        throw CLI::ValidationError("--config (" + place + ")", "expected a known setting, got " + item.fullname());
      }
      const char* value = std::getenv(EnvironmentName(item.name).c_str());
      if (option->count() > 0 || (value != nullptr && *value != '\0')) continue;
      (*places_)["--" + item.name] = place;
      kept.push_back(std::move(item));
    }
    return kept;
  }

 private:
  std::string Place(absl::string_view text, const CLI::ConfigItem& item) const {
    return absl::StrCat(app_->get_config_ptr()->as<std::string>(), ":", LineOf(text, item.name));
  }

  const CLI::App* const app_;
  Places* const places_;
};

// "--threads: expected …" becomes "--threads (server.toml:3): expected …" if the value is from the file.
absl::Status WithPlace(absl::string_view message, const Places& places) {
  const absl::string_view flag = message.substr(0, message.find(':'));
  const auto place = places.find(std::string(flag));
  if (place == places.end()) return absl::InvalidArgumentError(message);
  return absl::InvalidArgumentError(absl::StrCat(flag, " (", place->second, ")", message.substr(flag.size())));
}

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

void AddFlags(Config& config, Places& places, CLI::App& app) {
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
  app.config_formatter(std::make_shared<SettingsFile>(&app, &places));
  app.set_version_flag("--version", "attention_server " ATTENTION_VERSION);
}

// ATTENTION_CONFIG as the flag, which CLI11 does not read from the environment.
std::vector<std::string> WithConfigFile(absl::Span<const std::string> args) {
  std::vector<std::string> all(args.begin(), args.end());
  const char* file = std::getenv("ATTENTION_CONFIG");
  const auto names_file = [](const std::string& arg) {
    return arg == "--config" || absl::StartsWith(arg, "--config=");
  };
  if (file == nullptr || *file == '\0' || absl::c_any_of(args, names_file)) return all;
  all.insert(all.begin(), absl::StrCat("--config=", file));
  return all;
}

// Variables that look like settings. Kubernetes sets some for a service called "attention", so they are no error.
std::vector<std::string> UnknownVariables(const CLI::App& app) {
  std::set<std::string> known = {"ATTENTION_SERVER"};  // of attentionctl
  for (const CLI::Option* option : app.get_options()) known.insert(EnvironmentName(option->get_single_name()));
  std::vector<std::string> unknown;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string name(*variable, std::strcspn(*variable, "="));
    if (absl::StartsWith(name, "ATTENTION_") && known.count(name) == 0) unknown.push_back(name);
  }
  return unknown;
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

absl::Status CheckIdleTimeout(absl::Duration value) {
  if (value > absl::ZeroDuration()) return absl::OkStatus();
  return FieldError("--upload-idle-timeout", "more than 0", absl::FormatDuration(value));
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
           CheckRange("--keep-versions", config.keep_versions, 1, kMax),
           CheckRange("--max-weight-storage", config.max_weight_storage, 0, kMax),
           CheckIdleTimeout(config.upload_idle_timeout),
           CheckDuration("--batch-timeout", config.batch_timeout, absl::Minutes(1)),
           CheckRange("--max-connections", config.max_connections, 1, 1 << 20),
           CheckDuration("--max-connection-age", config.max_connection_age, absl::InfiniteDuration()),
           CheckDuration("--grace", config.grace, absl::InfiniteDuration()),
       }) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CommandLine> ParseConfig(absl::Span<const std::string> args) {
  CommandLine result;
  Places places;
  CLI::App app("Serves multi-head dot-product attention over gRPC.", "attention_server");
  try {
    AddFlags(result.config, places, app);
    app.allow_extras();  // reported below, because CLI11's text does not start with the flag
    // CLI11 expects the arguments in reverse order.
    std::vector<std::string> reversed = WithConfigFile(args);
    std::reverse(reversed.begin(), reversed.end());
    app.parse(std::move(reversed));
  } catch (const CLI::CallForHelp&) {
    result.text = app.help();
    return result;
  } catch (const CLI::CallForVersion& version) {
    result.text = absl::StrCat(version.what(), "\n");
    return result;
  } catch (const CLI::FileError& error) {
    return absl::InvalidArgumentError(absl::StrCat("--config: ", error.what()));
  } catch (const CLI::Error& error) {
    return WithPlace(error.what(), places);
  }
  if (!app.remaining().empty()) {
    return absl::InvalidArgumentError(absl::StrCat(app.remaining().front(), ": unknown argument"));
  }
  if (auto status = CheckConfig(result.config); !status.ok()) return WithPlace(status.message(), places);
  const std::vector<std::string> unknown = UnknownVariables(app);
  if (!unknown.empty()) {
    result.warnings.push_back(
        absl::StrCat("ignored environment variables that name no setting: ", absl::StrJoin(unknown, ", ")));
  }
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
