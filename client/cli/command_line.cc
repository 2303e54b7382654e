#include "client/cli/command_line.h"

#include <CLI/CLI.hpp>
#include <sstream>
#include <utility>

#include "absl/strings/numbers.h"

namespace attention::cli {
namespace {

constexpr int64_t kMaxSeconds = 1000000;

template <typename T>
std::string RangeText(const std::string& noun, const Range<T>& range) {
  const bool has_least = range.least != std::numeric_limits<T>::lowest();
  const bool has_greatest = range.greatest != std::numeric_limits<T>::max();
  if (has_least && has_greatest) return absl::StrCat(noun, " from ", range.least, " to ", range.greatest);
  return has_least ? absl::StrCat(noun, " of at least ", range.least) : noun;
}

template <typename T>
bool Contains(const Range<T>& range, T value) {
  return value >= range.least && value <= range.greatest;
}

std::optional<double> ParseSeconds(const std::string& text) {
  const size_t digits = text.find_last_of("0123456789.") + 1;
  const std::string unit = text.substr(digits);
  double number = 0;
  if (!absl::SimpleAtod(text.substr(0, digits), &number)) return std::nullopt;
  if (unit.empty() || unit == "s") return number;
  if (unit == "ms") return number / 1000;
  if (unit == "m") return number * 60;
  return std::nullopt;
}

}  // namespace

void FailUsage(const std::string& field, const std::string& sentence) { throw CLI::ValidationError(field, sentence); }

Argument Argument::Required() const { return Argument(option_->required()); }
Argument Argument::Needs(Argument other) const { return Argument(option_->needs(other.option_)); }
Argument Argument::Excludes(Argument other) const { return Argument(option_->excludes(other.option_)); }
Argument Argument::ShowDefault(const absl::AlphaNum& value) const {
  return Argument(option_->default_str(std::string(value.Piece())));
}
Argument Argument::FromEnvironment(const std::string& variable) const { return Argument(option_->envname(variable)); }
bool Argument::is_given() const { return option_->count() > 0; }

Command Command::AddCommand(const std::string& name, const std::string& help) const {
  return Command(app_->add_subcommand(name, help));
}

Command Command::AddGroup(const std::string& name, const std::string& help) const {
  return Command(app_->add_subcommand(name, help)->require_subcommand(1));
}

void Command::OnParsed(std::function<void()> parsed) const { app_->final_callback(std::move(parsed)); }

void Command::SetFooter(const std::string& text) const { app_->footer(text); }

Argument Command::Add(const std::string& name, const std::string& type, const std::string& help,
                      const std::string& expected, Parse parse) const {
  const auto convert = [name, expected, parse = std::move(parse)](const CLI::results_t& texts) {
    if (!parse(texts[0])) FailUsage(name, absl::StrCat("expected ", expected, ", got ", texts[0]));
    return true;
  };
  return Argument(app_->add_option(name, convert, help)->type_name(type));
}

Argument Command::AddText(const std::string& name, const std::string& type, const std::string& help,
                          std::string& value) const {
  return Add(name, type, help, "", [&value](const std::string& text) {
    value = text;
    return true;
  });
}

Argument Command::AddFlag(const std::string& name, const std::string& help, bool& value) const {
  return Argument(app_->add_flag_callback(
      name, [&value] { value = true; }, help));
}

Argument Command::AddTime(const std::string& name, const std::string& help, std::chrono::milliseconds least,
                          std::chrono::nanoseconds& value) const {
  const std::string expected =
      absl::StrCat("a time such as 500ms, 5s or 2m, from ", least.count(), "ms to ", kMaxSeconds, "s");
  const double least_seconds = std::chrono::duration<double>(least).count();
  return Add(name, "TIME", help + " (500ms, 5s, 2m)", expected, [least_seconds, &value](const std::string& text) {
    const std::optional<double> seconds = ParseSeconds(text);
    // The bound keeps the number of nanoseconds within 64 bits.
    if (!seconds || *seconds < least_seconds || *seconds > kMaxSeconds) return false;
    value = std::chrono::nanoseconds(static_cast<int64_t>(*seconds * 1e9));
    return true;
  });
}

Argument Command::AddInteger(const std::string& name, const std::string& help, Range<int64_t> range,
                             std::function<void(int64_t)> set) const {
  const std::string expected = RangeText("an integer", range);
  return Add(name, "N", help, expected, [range, set = std::move(set)](const std::string& text) {
    int64_t number = 0;
    if (!absl::SimpleAtoi(text, &number) || !Contains(range, number)) return false;
    set(number);
    return true;
  });
}

Argument Command::AddNumber(const std::string& name, const std::string& help, Range<double> range,
                            std::function<void(double)> set) const {
  const std::string expected = RangeText("a number", range);
  return Add(name, "X", help, expected, [range, set = std::move(set)](const std::string& text) {
    double number = 0;
    if (!absl::SimpleAtod(text, &number) || !Contains(range, number)) return false;
    set(number);
    return true;
  });
}

Argument Command::argument(const std::string& name) const { return Argument(app_->get_option(name)); }

CommandLine::CommandLine(const std::string& program, const std::string& help)
    : app_(std::make_unique<CLI::App>(help, program)) {
  app_->fallthrough();
  app_->require_subcommand(1);
  app_->failure_message([](const CLI::App* app, const CLI::Error& error) {
    return absl::StrCat(app->get_name(), ": ", CLI::FailureMessage::simple(app, error));
  });
}

CommandLine::~CommandLine() = default;

std::optional<Usage> CommandLine::Parse(int argc, const char* const* argv) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::ostringstream text;
    const int code = app_->exit(error, text, text);
    return Usage{code == 0 ? 0 : kUsageError, text.str()};
  }
  return std::nullopt;
}

}  // namespace attention::cli
