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
  EXPECT_EQ(config.keep_versions, 2);
  EXPECT_EQ(config.max_weight_storage, 0);
  EXPECT_EQ(config.upload_idle_timeout, absl::Seconds(60));
  EXPECT_EQ(config.max_connections, 4096);
  EXPECT_EQ(config.max_connection_age, absl::ZeroDuration());
  EXPECT_EQ(config.unix_mode, std::nullopt);
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
                             "--keep-versions",
                             "3",
                             "--max-weight-storage",
                             "5GiB",
                             "--upload-idle-timeout",
                             "30s",
                             "--max-connections",
                             "8",
                             "--max-connection-age",
                             "30m",
                             "--unix-mode",
                             "0660",
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
  EXPECT_EQ(config.keep_versions, 3);
  EXPECT_EQ(config.max_weight_storage, int64_t{5} << 30);
  EXPECT_EQ(config.upload_idle_timeout, absl::Seconds(30));
  EXPECT_EQ(config.max_connections, 8);
  EXPECT_EQ(config.max_connection_age, absl::Minutes(30));
  EXPECT_EQ(config.unix_mode, 0660);
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

TEST(ConfigTest, ReportsVariablesThatNameNoSetting) {
  const Variable known("ATTENTION_THREADS", "1");
  const Variable of_the_client("ATTENTION_SERVER", "localhost:1");
  const Variable misspelt("ATTENTION_MAX_BATCH_TOKEN", "1");
  const auto parsed = Parse({});
  ASSERT_THAT(parsed, IsOk());
  ASSERT_EQ(parsed->warnings.size(), 1u);
  EXPECT_THAT(parsed->warnings.front(),
              ::testing::AllOf(HasSubstr("ignored environment variables that name no setting: "),
                               HasSubstr("ATTENTION_MAX_BATCH_TOKEN"), ::testing::Not(HasSubstr("ATTENTION_THREADS")),
                               ::testing::Not(HasSubstr("ATTENTION_SERVER"))));
}

TEST(ConfigTest, AcceptsEveryUsualWordForASwitch) {
  for (const char* word : {"true", "1", "yes", "on", "TRUE", "Yes"}) {
    const Variable watch("ATTENTION_WATCH_WEIGHTS", word);
    const auto parsed = Parse({});
    ASSERT_THAT(parsed, IsOk()) << word;
    EXPECT_TRUE(parsed->config.watch_weights) << word;
  }
  for (const char* word : {"false", "0", "no", "off"}) {
    const Variable watch("ATTENTION_WATCH_WEIGHTS", word);
    const auto parsed = Parse({});
    ASSERT_THAT(parsed, IsOk()) << word;
    EXPECT_FALSE(parsed->config.watch_weights) << word;
  }
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

TEST_F(ConfigFileTest, IsNamedByTheEnvironment) {
  folder_.Write("environment.toml", "threads = 5\n");
  const Variable file("ATTENTION_CONFIG", (folder_.path() / "environment.toml").c_str());
  const auto parsed = Parse({});
  ASSERT_THAT(parsed, IsOk());
  EXPECT_EQ(parsed->config.threads, 5);
  const auto by_flag = ParseWithFile("threads = 6\n");
  ASSERT_THAT(by_flag, IsOk());
  EXPECT_EQ(by_flag->config.threads, 6);
}

TEST_F(ConfigFileTest, NamesFileAndLineOfAnError) {
  struct Case {
    std::string text, field, line, expectation;
  };
  const std::string file = (folder_.path() / "server.toml").string();
  for (const Case& c : std::vector<Case>{
           {"# first\nmax-batch-token = 1\n", "--config", "2", "a known setting, got max-batch-token"},
           {"[server]\nthreads = 1\n", "--config", "2", "a known setting, got server.threads"},
           {"threads = \"many\"\n", "--threads", "1", "a whole number, got \"many\""},
           {"\n threads=-1\n", "--threads", "2", "0 to 1024, got -1"},
       }) {
    EXPECT_THAT(ParseWithFile(c.text), StatusIs(absl::StatusCode::kInvalidArgument,
                                                c.field + " (" + file + ":" + c.line + "): expected " + c.expectation));
  }
}

TEST_F(ConfigFileTest, IsNotBlamedForAValueOfTheCommandLine) {
  EXPECT_THAT(ParseWithFile("threads = 1\n", {"--threads", "-1"}),
              StatusIs(absl::StatusCode::kInvalidArgument, "--threads: expected 0 to 1024, got -1"));
}

struct BadArguments {
  std::vector<std::string> args;
  std::string message;
};

TEST(ConfigTest, NamesTheFlagAndTheValue) {
  const std::string address_rule = "--listen: expected HOST:PORT with a port of 0 to 65535, or unix:PATH, got ";
  const std::string size_rule = "--max-inflight-bytes: expected a size such as 1048576, 1024KiB, 1MiB or 1GiB, got ";
  const std::string mode_rule = "--unix-mode: expected octal permissions of 0 to 0777, such as 0660, got ";
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
      {{"--watch-weights=maybe"}, "--watch-weights: expected true or false, got \"maybe\""},
      {{"--unix-mode", "rw"}, mode_rule + "\"rw\""},
      {{"--unix-mode", "0668"}, mode_rule + "\"0668\""},
      {{"--unix-mode", "1777"}, mode_rule + "\"1777\""},
      {{"--max-connections", "0"}, "--max-connections: expected 1 to 1048576, got 0"},
      {{"--max-connection-age", "-1s"}, "--max-connection-age: expected 0 to inf, got -1s"},
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
