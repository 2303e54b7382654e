#include <gmock/gmock.h>

#include <cstdlib>
#include <vector>

#include "client/cli/options.h"

namespace attention::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

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
      ADD_FAILURE() << "another command";
      return {};
    }
    return *command;
  }
};

TEST_F(OptionsTest, ReadsAttend) {
  const auto attend = Good<AttendOptions>({"attend", "ocr/layer0", "--inputs-q", "[[1, 2]]", "--inputs-k", "k.npy",
                                           "--inputs-v", "v.safetensors:v", "--mask", "[true]", "--output", "o.npy",
                                           "--attn-weights", "w.npy", "--request-id", "r", "--priority", "-3"});
  EXPECT_EQ(attend.inputs.weight_set, "ocr/layer0");
  EXPECT_EQ(attend.inputs.inputs_q, "[[1, 2]]");
  EXPECT_EQ(attend.inputs.inputs_k, "k.npy");
  EXPECT_EQ(attend.inputs.inputs_v, "v.safetensors:v");
  EXPECT_EQ(attend.inputs.mask, "[true]");
  EXPECT_EQ(attend.output, "o.npy");
  EXPECT_EQ(attend.attn_weights, "w.npy");
  EXPECT_EQ(attend.inputs.request_id, "r");
  EXPECT_EQ(attend.inputs.priority, -3);
}

TEST_F(OptionsTest, ReadsExplain) {
  const auto explain = Good<ExplainOptions>({"explain", "w", "--inputs-q", "x.npy", "--row", "1", "--head", "2",
                                             "--sequence", "3", "--max-rows", "4", "--max-columns", "5"});
  EXPECT_FALSE(explain.public_question);
  EXPECT_EQ(explain.settings.spot.row, 1);
  EXPECT_EQ(explain.settings.spot.head, 2);
  EXPECT_EQ(explain.settings.spot.sequence, 3);
  EXPECT_EQ(explain.settings.limits.max_rows, 4);
  EXPECT_EQ(explain.settings.limits.max_columns, 5);
}

TEST_F(OptionsTest, ThePublicQuestionNeedsNoInputs) {
  EXPECT_TRUE(Good<ExplainOptions>({"explain", "--public-question"}).public_question);
  EXPECT_TRUE(Good<ExplainOptions>({"explain", "--demo"}).public_question);
}

TEST_F(OptionsTest, ReadsWeightsAndHealth) {
  EXPECT_TRUE(Good<ListOptions>({"weights", "list", "--json"}).json);
  EXPECT_EQ(Good<ShowOptions>({"weights", "show", "a/b"}).name, "a/b");
  EXPECT_EQ(Good<LoadOptions>({"weights", "load", "a"}).checkpoint, "a");
  EXPECT_EQ(Good<UnloadOptions>({"weights", "unload", "a/b"}).name, "a/b");
  EXPECT_EQ(Good<MakeDemoOptions>({"weights", "make-demo", "folder"}).directory, "folder");
  EXPECT_EQ(Good<HealthOptions>({"health"}).service, "");
  EXPECT_EQ(Good<HealthOptions>({"health", "attention.v1.AttentionService"}).service, "attention.v1.AttentionService");
}

TEST_F(OptionsTest, BenchIsAClosedLoopOfOneUnlessARateIsGiven) {
  const auto closed = Good<BenchOptions>({"bench", "w"});
  EXPECT_EQ(closed.rate, 0);
  EXPECT_EQ(closed.in_flight(), 1);
  EXPECT_EQ(closed.warmup, seconds(1));
  EXPECT_EQ(closed.duration, seconds(5));
  EXPECT_FALSE(closed.kv_length.has_value());
  const auto open = Good<BenchOptions>({"bench", "w", "--rate", "250"});
  EXPECT_EQ(open.rate, 250);
  EXPECT_EQ(open.in_flight(), 1000);
}

TEST_F(OptionsTest, ReadsBench) {
  const auto bench =
      Good<BenchOptions>({"bench", "w", "--concurrency", "16", "--connections", "2", "--batch", "3", "--q-length", "4",
                          "--kv-length", "5", "--duration", "250ms", "--warmup", "0", "--requests", "100", "--json"});
  EXPECT_EQ(bench.in_flight(), 16);
  EXPECT_EQ(bench.connections, 2);
  EXPECT_EQ(bench.batch, 3);
  EXPECT_EQ(bench.q_length, 4);
  EXPECT_EQ(bench.kv_length, 5);
  EXPECT_EQ(bench.duration, milliseconds(250));
  EXPECT_EQ(bench.warmup, seconds(0));
  EXPECT_EQ(bench.requests, 100);
  EXPECT_TRUE(bench.json);
}

TEST_F(OptionsTest, TheServerMayStandBeforeOrAfterTheCommand) {
  EXPECT_EQ(Good({"health"}).server.address, "127.0.0.1:50051");
  EXPECT_EQ(Good({"--server", "a:1", "health"}).server.address, "a:1");
  EXPECT_EQ(Good({"weights", "list", "--server", "unix:/run/a", "--timeout", "2m"}).server.address, "unix:/run/a");
  EXPECT_EQ(Good({"weights", "list", "--timeout", "2m"}).server.timeout, seconds(120));
}

TEST_F(OptionsTest, TheEnvironmentNamesTheServerUnlessTheCommandLineDoes) {
  setenv("ATTENTION_SERVER", "env:1", 1);
  EXPECT_EQ(Good({"health"}).server.address, "env:1");
  EXPECT_EQ(Good({"health", "--server", "line:1"}).server.address, "line:1");
}

TEST_F(OptionsTest, HelpIsNoError) {
  const auto parsed = Parse({"attend", "--help"});
  ASSERT_TRUE(std::holds_alternative<Usage>(parsed));
  EXPECT_EQ(std::get<Usage>(parsed).exit_code, 0);
  EXPECT_THAT(std::get<Usage>(parsed).text, HasSubstr("--inputs-q"));
}

struct BadCase {
  const char* name;
  std::vector<const char*> arguments;
  const char* text;
};

class BadOptionsTest : public OptionsTest, public ::testing::WithParamInterface<BadCase> {};

TEST_P(BadOptionsTest, IsAUsageErrorThatNamesTheOption) {
  const auto parsed = Parse(GetParam().arguments);
  ASSERT_TRUE(std::holds_alternative<Usage>(parsed));
  EXPECT_EQ(std::get<Usage>(parsed).exit_code, kUsageError);
  EXPECT_THAT(std::get<Usage>(parsed).text, HasSubstr(GetParam().text));
}

INSTANTIATE_TEST_SUITE_P(
    CommandLines, BadOptionsTest,
    ::testing::Values(
        BadCase{"NoCommand", {}, "subcommand is required"}, BadCase{"UnknownOption", {"health", "--nope"}, "--nope"},
        BadCase{"NoInput", {"attend", "w"}, "--inputs-q"},
        BadCase{"NoWeightSet", {"explain", "--inputs-q", "[1]"}, "weight_set (or --public-question)"},
        BadCase{"ExplainNoInput", {"explain", "w"}, "--inputs-q (or --public-question)"},
        BadCase{"QuestionWithInput", {"explain", "--demo", "--mask", "[1]"}, "excludes --mask"},
        BadCase{"ZeroRate", {"bench", "w", "--rate", "0"}, "--rate"},
        BadCase{"UnknownUnit", {"bench", "w", "--duration", "5h"}, "--duration"},
        BadCase{"ZeroDuration", {"bench", "w", "--duration", "0"}, "--duration"},
        BadCase{"NoNumber", {"bench", "w", "--batch", "many"}, "--batch"},
        BadCase{"PriorityTooLarge", {"attend", "w", "--inputs-q", "[1]", "--priority", "3000000000"}, "--priority"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace attention::cli
