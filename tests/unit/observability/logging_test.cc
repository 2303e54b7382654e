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

TEST(LoggingTest, WritesFieldsApart) {
  const struct {
    std::string message, fields;
  } cases[] = {
      {"listening on 127.0.0.1:1; 2 threads", "{}"},
      {"uploaded checkpoint=\"a \\\"b\" version=3 unchanged", R"({"checkpoint": "a \"b", "version": 3})"},
      {"deleted checkpoint=\"a\" versions=1,2", R"({"checkpoint": "a", "versions": "1,2"})"},
      {"load checkpoint=\"a\" failed: level=1 x=2", R"({"checkpoint": "a"})"},
      {"odd level=high =1 A=2", "{}"},
      {"open checkpoint=\"a", R"({"checkpoint": "a"})"},
  };
  for (const auto& c : cases) {
    auto event = nlohmann::json::parse(Logged(LogLevel::kInfo, LogFormat::kJson, c.message));
    EXPECT_EQ(event["message"], c.message);
    EXPECT_EQ(event["level"], "info");
    for (const char* key : {"time", "level", "message"}) event.erase(key);
    EXPECT_EQ(event, nlohmann::json::parse(c.fields)) << c.message;
  }
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
