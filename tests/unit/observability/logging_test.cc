#include "server/observability/logging.h"

#include <gmock/gmock.h>
#include <spdlog/spdlog.h>

#include <nlohmann/json.hpp>
#include <string>

namespace attention::server {
namespace {

std::string Logged(LogLevel level, LogFormat format, const std::string& message) {
  ::testing::internal::CaptureStderr();
  StartLogging(level, format);
  spdlog::debug("hidden");
  spdlog::info("{}", message);
  return ::testing::internal::GetCapturedStderr();
}

TEST(LoggingTest, WritesJsonThatParsesWhateverTheMessageHolds) {
  const std::string message = "quote \" newline \n bad utf-8 \xff end";
  const std::string line = Logged(LogLevel::kInfo, LogFormat::kJson, message);
  ASSERT_EQ(line.find('\n'), line.size() - 1) << line;
  const auto event = nlohmann::json::parse(line);
  EXPECT_EQ(event["level"], "info");
  EXPECT_EQ(event["message"], "quote \" newline \n bad utf-8 \xef\xbf\xbd end");
  EXPECT_THAT(event["time"].get<std::string>(), ::testing::MatchesRegex("20..-..-..T..:..:..\\....Z"));
}

TEST(LoggingTest, WritesTextWithTimeAndLevel) {
  EXPECT_THAT(Logged(LogLevel::kInfo, LogFormat::kText, "hello"),
              ::testing::MatchesRegex("20..-..-..T..:..:..\\....Z info    hello\n"));
}

TEST(LoggingTest, IsSilentWhenOff) { EXPECT_EQ(Logged(LogLevel::kOff, LogFormat::kText, "hello"), ""); }

TEST(LoggingTest, EscapesTextOfCallers) {
  EXPECT_EQ(ForLog("a\"b\nc"), "a\\\"b\\nc");
  EXPECT_EQ(ForLog("grün"), "grün");
  EXPECT_EQ(ForLog(std::string(1000, 'a')), std::string(256, 'a'));
}

}  // namespace
}  // namespace attention::server
