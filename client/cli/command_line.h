#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace attention::cli {

// The parser of command lines. Its source is the only one that includes CLI11, which takes longer to compile than all
// the commands.

// There is nothing to run: help was requested (exit code 0), or the command line is wrong (kUsageError).
struct Usage {
  int exit_code = 0;
  std::string text;
};

inline constexpr int kUsageError = 2;

// Ends parsing with "FIELD: SENTENCE". For checks between several arguments.
[[noreturn]] void FailUsage(const std::string& field, const std::string& sentence);

// Both ends are included. An end at the limit of the type is not mentioned in messages.
template <typename T>
struct Range {
  T least = std::numeric_limits<T>::lowest();
  T greatest = std::numeric_limits<T>::max();
};

// An option ("--name") or a positional argument ("name") of a command: a handle, as cheap as a pointer.
class Argument {
 public:
  explicit Argument(CLI::Option* option) : option_(option) {}

  Argument Required() const;
  Argument Needs(Argument other) const;
  Argument Excludes(Argument other) const;
  Argument ShowDefault(const absl::AlphaNum& value) const;  // in the help text
  Argument FromEnvironment(const std::string& variable) const;
  bool is_given() const;

 private:
  CLI::Option* option_;
};

// A command, with the arguments that it takes: a handle, as cheap as a pointer. Every Add function takes the variable
// that is set when the argument is on the command line.
class Command {
 public:
  explicit Command(CLI::App* app) : app_(app) {}

  Command AddCommand(const std::string& name, const std::string& help) const;

  // A command that needs one of its sub-commands.
  Command AddGroup(const std::string& name, const std::string& help) const;

  // `parsed` runs once the whole command line has been read, if it names this command. It may call FailUsage.
  void OnParsed(std::function<void()> parsed) const;

  // Printed after the help text.
  void SetFooter(const std::string& text) const;

  // `parse` returns false for a text that it does not take, which is the error "NAME: expected EXPECTED, got TEXT".
  // `type` stands for the value in the help text.
  using Parse = std::function<bool(const std::string& text)>;
  Argument Add(const std::string& name, const std::string& type, const std::string& help, const std::string& expected,
               Parse parse) const;

  Argument AddText(const std::string& name, const std::string& type, const std::string& help, std::string& value) const;
  Argument AddFlag(const std::string& name, const std::string& help, bool& value) const;

  // "500ms", "5s", "2m", or seconds without a unit; at most 1000000 seconds.
  Argument AddTime(const std::string& name, const std::string& help, std::chrono::milliseconds least,
                   std::chrono::nanoseconds& value) const;

  // T: a number type, or an optional one, that can hold the whole range.
  template <typename T>
  Argument AddInteger(const std::string& name, const std::string& help, Range<int64_t> range, T& value) const {
    return AddInteger(name, help, range,
                      std::function<void(int64_t)>([&value](int64_t n) { value = static_cast<T>(n); }));
  }
  Argument AddInteger(const std::string& name, const std::string& help, Range<int64_t> range,
                      std::function<void(int64_t)> set) const;
  template <typename T>
  Argument AddNumber(const std::string& name, const std::string& help, Range<double> range, T& value) const {
    return AddNumber(name, help, range, std::function<void(double)>([&value](double x) { value = static_cast<T>(x); }));
  }
  Argument AddNumber(const std::string& name, const std::string& help, Range<double> range,
                     std::function<void(double)> set) const;

  // REQUIRES: the command has an argument of this name.
  Argument argument(const std::string& name) const;

 private:
  CLI::App* app_;
};

class CommandLine {
 public:
  CommandLine(const std::string& program, const std::string& help);
  ~CommandLine();

  // Takes the arguments of all commands, which are accepted before and after the name of the command.
  Command root() const { return Command(app_.get()); }

  // Sets the variables of the arguments and runs the functions of the command. Returns what to print if there is
  // nothing to run.
  std::optional<Usage> Parse(int argc, const char* const* argv);

 private:
  std::unique_ptr<CLI::App> app_;
};

}  // namespace attention::cli
