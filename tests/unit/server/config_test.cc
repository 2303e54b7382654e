#include "server/config.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "tests/testing/files/temporary_folder.h"
#include "tests/testing/matchers.h"

namespace attention::server {
namespace {

using ::attention::test::IsOk;
using ::attention::test::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Sets an environment variable for the duration of a test.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }

 private:
  const char* const name_;
};

absl::StatusOr<CommandLine> Parse(const std::vector<std::string>& args) { return ParseConfig(args); }

TEST(ConfigTest, HasTheDocumentedDefaults) {
  const auto parsed = Parse({});
  ASSERT_THAT(parsed, IsOk());
  const Config& config = parsed->config;
  EXPECT_EQ(parsed->text, "");
  EXPECT_THAT(config.listen, ElementsAre("127.0.0.1:50051"));
  EXPECT_EQ(config.weights_dir, "");
  EXPECT_FALSE(config.strict_weights);
  EXPECT_FALSE(config.watch_weights);
  EXPECT_EQ(config.threads, 0);
  EXPECT_EQ(config.batch_timeout, absl::ZeroDuration());
  EXPECT_EQ(config.max_batch_tokens, 16384);
  EXPECT_EQ(config.max_batch_requests, 256);
  EXPECT_EQ(config.max_queued_requests, 1024);
  EXPECT_EQ(config.max_inflight_bytes, 2147483648);
  EXPECT_EQ(config.max_message_bytes, 268435456);
  EXPECT_EQ(config.max_weight_bytes, 0);
  EXPECT_EQ(config.grace, absl::Seconds(10));
  EXPECT_EQ(config.log_level, LogLevel::kInfo);
  EXPECT_EQ(config.log_format, LogFormat::kText);
}

TEST(ConfigTest, ReadsEveryFlag) {
  const auto parsed = Parse({"--listen",
                             "0.0.0.0:0",
                             "--listen=unix:/run/a.sock",
                             "--weights-dir",
                             "/w",
                             "--strict-weights",
                             "--watch-weights",
                             "--threads",
                             "3",
                             "--batch-timeout",
                             "2ms",
                             "--max-batch-tokens",
                             "5",
                             "--max-batch-requests",
                             "6",
                             "--max-queued-requests",
                             "7",
                             "--max-inflight-bytes",
                             "3GiB",
                             "--max-message-bytes",
                             "2147483647",
                             "--max-weight-bytes",
                             "64KiB",
                             "--grace",
                             "1.5s",
                             "--log-level",
                             "debug",
                             "--log-format",
                             "json"});
  ASSERT_THAT(parsed, IsOk());
  const Config& config = parsed->config;
  EXPECT_THAT(config.listen, ElementsAre("0.0.0.0:0", "unix:/run/a.sock"));
  EXPECT_EQ(config.weights_dir, "/w");
  EXPECT_TRUE(config.strict_weights);
  EXPECT_TRUE(config.watch_weights);
  EXPECT_EQ(config.threads, 3);
  EXPECT_EQ(config.batch_timeout, absl::Milliseconds(2));
  EXPECT_EQ(config.max_batch_tokens, 5);
  EXPECT_EQ(config.max_batch_requests, 6);
  EXPECT_EQ(config.max_queued_requests, 7);
  EXPECT_EQ(config.max_inflight_bytes, int64_t{3} << 30);
  EXPECT_EQ(config.max_message_bytes, 2147483647);
  EXPECT_EQ(config.max_weight_bytes, 65536);
  EXPECT_EQ(config.grace, absl::Milliseconds(1500));
  EXPECT_EQ(config.log_level, LogLevel::kDebug);
  EXPECT_EQ(config.log_format, LogFormat::kJson);
}

TEST(ConfigTest, ReadsTheEnvironment) {
  const Variable tokens("ATTENTION_MAX_BATCH_TOKENS", "99");
  const Variable listen("ATTENTION_LISTEN", "127.0.0.1:1,127.0.0.1:2");
  const auto parsed = Parse({});
  ASSERT_THAT(parsed, IsOk());
  EXPECT_EQ(parsed->config.max_batch_tokens, 99);
  EXPECT_THAT(parsed->config.listen, ElementsAre("127.0.0.1:1", "127.0.0.1:2"));
}

TEST(ConfigTest, AcceptsASwitchWithAndWithoutAValue) {
  const Variable watch("ATTENTION_WATCH_WEIGHTS", "true");
  struct Case {
    std::vector<std::string> args;
    bool strict, watch;
  };
  for (const Case& c : std::vector<Case>{{{}, false, true},
                                         {{"--strict-weights"}, true, true},
                                         {{"--strict-weights", "--watch-weights=false"}, true, false},
                                         {{"--strict-weights=false"}, false, true},
                                         {{"--strict-weights", "true", "--watch-weights", "false"}, true, false}}) {
    const auto parsed = Parse(c.args);
    ASSERT_THAT(parsed, IsOk());
    EXPECT_EQ(parsed->config.strict_weights, c.strict);
    EXPECT_EQ(parsed->config.watch_weights, c.watch);
  }
}

class ConfigFileTest : public ::testing::Test {
 protected:
  absl::StatusOr<CommandLine> ParseWithFile(const std::string& text, std::vector<std::string> args = {}) {
    folder_.Write("server.toml", text);
    args.insert(args.end(), {"--config", (folder_.path() / "server.toml").string()});
    return Parse(args);
  }

  test::TemporaryFolder folder_;
};

TEST_F(ConfigFileTest, ReadsToml) {
  const auto parsed = ParseWithFile(
      "# a comment\nlisten = [\"127.0.0.1:1\", \"unix:/run/a\"]\nmax-batch-tokens = 77\ngrace = \"3s\"\n"
      "strict-weights = true\n");
  ASSERT_THAT(parsed, IsOk());
  EXPECT_THAT(parsed->config.listen, ElementsAre("127.0.0.1:1", "unix:/run/a"));
  EXPECT_EQ(parsed->config.max_batch_tokens, 77);
  EXPECT_EQ(parsed->config.grace, absl::Seconds(3));
  EXPECT_TRUE(parsed->config.strict_weights);
}

TEST_F(ConfigFileTest, IsOverriddenByTheEnvironmentAndByFlags) {
  const Variable tokens("ATTENTION_MAX_BATCH_TOKENS", "2");
  const Variable requests("ATTENTION_MAX_BATCH_REQUESTS", "2");
  const auto parsed = ParseWithFile("max-batch-tokens = 1\nmax-batch-requests = 1\nmax-queued-requests = 1\n",
                                    {"--max-batch-requests", "3"});
  ASSERT_THAT(parsed, IsOk());
  EXPECT_EQ(parsed->config.max_queued_requests, 1);
  EXPECT_EQ(parsed->config.max_batch_tokens, 2);
  EXPECT_EQ(parsed->config.max_batch_requests, 3);
}

TEST_F(ConfigFileTest, RejectsAnUnknownSetting) {
  EXPECT_THAT(ParseWithFile("max-batch-token = 1\n"),
              StatusIs(absl::StatusCode::kInvalidArgument, "--config: expected a known setting, got max-batch-token"));
  EXPECT_THAT(
      ParseWithFile("[server]\nthreads = 1\n"),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--config: expected a known setting, got server.")));
}

TEST_F(ConfigFileTest, RejectsABadValue) {
  EXPECT_THAT(ParseWithFile("threads = \"many\"\n"),
              StatusIs(absl::StatusCode::kInvalidArgument, "--threads: expected a whole number, got \"many\""));
}

struct BadArguments {
  std::vector<std::string> args;
  std::string message;
};

TEST(ConfigTest, NamesTheFlagAndTheValue) {
  const std::string address_rule = "--listen: expected HOST:PORT with a port of 0 to 65535, or unix:PATH, got ";
  const std::string size_rule = "--max-inflight-bytes: expected a size such as 1048576, 1024KiB, 1MiB or 1GiB, got ";
  const BadArguments cases[] = {
      {{"--threads", "two"}, "--threads: expected a whole number, got \"two\""},
      {{"--threads", "-1"}, "--threads: expected 0 to 1024, got -1"},
      {{"--batch-timeout", "5"}, "--batch-timeout: expected a duration such as 0, 500us, 2ms, 1.5s or 1m, got \"5\""},
      {{"--batch-timeout", "-1ms"}, "--batch-timeout: expected 0 to 1m, got -1ms"},
      {{"--grace", "-1s"}, "--grace: expected 0 to inf, got -1s"},
      {{"--max-batch-tokens", "0"}, "--max-batch-tokens: expected 1 to 9223372036854775807, got 0"},
      {{"--max-queued-requests", "0"}, "--max-queued-requests: expected 1 to 9223372036854775807, got 0"},
      {{"--max-message-bytes", "2GiB"}, "--max-message-bytes: expected 4096 to 2147483647, got 2147483648"},
      {{"--max-inflight-bytes", "9999999TiB"}, size_rule + "\"9999999TiB\""},
      {{"--max-inflight-bytes", "1MB"}, size_rule + "\"1MB\""},
      {{"--max-inflight-bytes", "1MiB"},
       "--max-inflight-bytes: expected at least --max-message-bytes 268435456, got 1048576"},
      {{"--watch-weights=yes"}, "--watch-weights: expected true or false, got \"yes\""},
      {{"--log-level", "loud"}, "--log-level: expected one of debug, info, warning, error, off, got \"loud\""},
      {{"--listen", "localhost"}, address_rule + "localhost"},
      {{"--listen", ":50051"}, address_rule + ":50051"},
      {{"--listen", "localhost:65536"}, address_rule + "localhost:65536"},
      {{"--listen", "::1:50051"}, address_rule + "::1:50051"},
      {{"--listen", "unix:"}, "--listen: expected a path of 1 to 107 bytes, got 0 bytes in unix:"},
      {{"--listen", "a:1", "--listen", "a:1"}, "--listen: expected distinct addresses, got a:1 twice"},
      {{"--config", "/nonexistent.toml"}, "--config: /nonexistent.toml was not readable (missing?)"},
      {{"--nonsense"}, "--nonsense: unknown argument"},
      {{"stray"}, "stray: unknown argument"},
  };
  for (const BadArguments& bad : cases) {
    EXPECT_THAT(Parse(bad.args), StatusIs(absl::StatusCode::kInvalidArgument, bad.message));
  }
}

TEST(ConfigTest, AcceptsEveryFormOfAddress) {
  for (const char* address : {"localhost:0", "[::1]:65535", "[::]:50051", "unix:relative.sock"}) {
    EXPECT_THAT(Parse({"--listen", address}), IsOk()) << address;
  }
}

TEST(ConfigTest, ReturnsHelpInsteadOfPrintingIt) {
  const auto parsed = Parse({"--help"});
  ASSERT_THAT(parsed, IsOk());
  // Versions of CLI11 print defaults differently.
  EXPECT_THAT(parsed->text, ::testing::ContainsRegex("--max-batch-tokens N(=| \\[)16384"));
  EXPECT_THAT(parsed->text, HasSubstr("ATTENTION_MAX_BATCH_TOKENS"));
}

TEST(ConfigTest, ReturnsTheVersion) {
  const auto parsed = Parse({"--version"});
  ASSERT_THAT(parsed, IsOk());
  EXPECT_THAT(parsed->text, ::testing::MatchesRegex("attention_server [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

}  // namespace
}  // namespace attention::server
