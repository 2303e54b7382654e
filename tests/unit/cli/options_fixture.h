#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "client/cli/options.h"

namespace attention::cli {

// Parses command lines, without ATTENTION_SERVER of the test's environment.
class OptionsTest : public ::testing::Test {
 protected:
  OptionsTest() { unsetenv("ATTENTION_SERVER"); }
  ~OptionsTest() override { unsetenv("ATTENTION_SERVER"); }

  static std::variant<Options, Usage> Parse(std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "attentionctl");
    return ParseOptions(static_cast<int>(arguments.size()), arguments.data());
  }

  static Options Good(const std::vector<const char*>& arguments) {
    const auto parsed = Parse(arguments);
    if (const Usage* usage = std::get_if<Usage>(&parsed)) {
      ADD_FAILURE() << usage->text;
      return {};
    }
    return std::get<Options>(parsed);
  }

  template <typename Command>
  static Command Good(const std::vector<const char*>& arguments) {
    const Options options = Good(arguments);
    const Command* command = std::get_if<Command>(&options.command);
    if (command == nullptr) {
      ADD_FAILURE() << "the line has another command";
      return {};
    }
    return *command;
  }
};

}  // namespace attention::cli
