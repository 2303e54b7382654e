#include <gmock/gmock.h>

#include <cstdlib>
#include <vector>

#include "tests/unit/cli/options_fixture.h"

namespace attention::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

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

TEST_F(OptionsTest, ReadsMasks) {
  const InputOptions inputs =
      Good<AttendOptions>({"attend",           "w",   "--inputs-q",  "[[1]]", "--bias",          "b.npy",
                           "--causal",         "-2",  "--window",    "3,-1",  "--window-at",     "bottom-right",
                           "--kv-lengths",     "3,4", "--q-lengths", "5",     "--q-segment-ids", "[1]",
                           "--kv-segment-ids", "[2]"})
          .inputs;
  EXPECT_EQ(inputs.weight_set, "w");
  EXPECT_EQ(inputs.bias, "b.npy");
  EXPECT_EQ(inputs.causal, Diagonal(-2));
  ASSERT_TRUE(inputs.window.has_value());
  EXPECT_EQ(inputs.window->left, 3);
  EXPECT_EQ(inputs.window->right, -1);
  EXPECT_EQ(inputs.window->diagonal, Diagonal(Corner::kBottomRight));
  EXPECT_THAT(inputs.kv_lengths, ElementsAre(3, 4));
  EXPECT_THAT(inputs.q_lengths, ElementsAre(5));
  EXPECT_EQ(inputs.q_segment_ids, "[1]");
  EXPECT_EQ(inputs.kv_segment_ids, "[2]");
}

TEST_F(OptionsTest, ReadsDiagonals) {
  const auto causal = [](const char* word) {
    return Good<AttendOptions>({"attend", "w", "--inputs-q", "[[1]]", "--causal", word}).inputs.causal;
  };
  EXPECT_EQ(causal("top-left"), Diagonal(Corner::kTopLeft));
  EXPECT_EQ(causal("bottom-right"), Diagonal(Corner::kBottomRight));
  EXPECT_EQ(causal("7"), Diagonal(7));
}

TEST_F(OptionsTest, AcceptsTheWeightSetAfterAList) {
  const auto attend = Good<AttendOptions>({"attend", "--kv-lengths", "3,4", "w", "--inputs-q", "[[1]]"});
  EXPECT_EQ(attend.inputs.weight_set, "w");
  EXPECT_THAT(attend.inputs.kv_lengths, ElementsAre(3, 4));
}

TEST_F(OptionsTest, ReadsAttentionWithoutAWeightSet) {
  const auto explain = Good<ExplainOptions>(
      {"explain", "--axes", "heads-length", "--num-kv-heads", "2", "--num-heads", "8", "--inputs-q", "q.npy"});
  EXPECT_EQ(explain.inputs.weight_set, "");
  ASSERT_TRUE(explain.inputs.heads.has_value());
  EXPECT_EQ(explain.inputs.heads->num_heads, 8);
  EXPECT_EQ(explain.inputs.heads->num_kv_heads, 2);
  EXPECT_EQ(explain.inputs.heads->axes, HeadAxes::kHeadsLength);
}

TEST_F(OptionsTest, ReadsArithmetic) {
  const InputOptions inputs =
      Good<AttendOptions>({"attend", "w", "--inputs-q", "[[1]]", "--scale", "-0.5", "--softcap", "30", "--empty-rows",
                           "error", "--compute-dtype", "bfloat16", "--output-dtype", "float64"})
          .inputs;
  EXPECT_EQ(inputs.scale, -0.5f);
  EXPECT_EQ(inputs.softcap, 30.0f);
  EXPECT_EQ(inputs.empty_rows, EmptyRows::kError);
  EXPECT_EQ(inputs.compute_dtype, DataType::kBFloat16);
  EXPECT_EQ(inputs.output_dtype, DataType::kFloat64);
}

TEST_F(OptionsTest, LeavesOutWhatIsNotGiven) {
  const auto attend = Good<AttendOptions>({"attend", "w", "--inputs-q", "[[1]]"});
  EXPECT_FALSE(attend.inputs.causal.has_value());
  EXPECT_FALSE(attend.inputs.window.has_value());
  EXPECT_TRUE(attend.inputs.kv_lengths.empty());
  EXPECT_FALSE(attend.inputs.heads.has_value());
  EXPECT_FALSE(attend.inputs.scale.has_value());
  EXPECT_FALSE(attend.inputs.softcap.has_value());
  EXPECT_EQ(attend.inputs.empty_rows, EmptyRows::kUniform);
  EXPECT_FALSE(attend.inputs.compute_dtype.has_value());
  EXPECT_FALSE(attend.inputs.output_dtype.has_value());
  EXPECT_EQ(attend.top_k, 0);
}

TEST_F(OptionsTest, ReadsWhatAttendReturns) {
  const auto attend = Good<AttendOptions>(
      {"attend", "w", "--inputs-q", "[[1]]", "--mean-attn-weights", "m.npy", "--log-sum-exp", "l.npy", "--top-k", "3"});
  EXPECT_EQ(attend.mean_attn_weights, "m.npy");
  EXPECT_EQ(attend.log_sum_exp, "l.npy");
  EXPECT_EQ(attend.top_k, 3);
}

TEST_F(OptionsTest, ReadsExplain) {
  const auto explain = Good<ExplainOptions>({"explain", "w", "--inputs-q", "x.npy", "--row", "1", "--head", "2",
                                             "--sequence", "3", "--max-rows", "4", "--max-columns", "5"});
  EXPECT_FALSE(explain.public_question);
  EXPECT_EQ(explain.row, 1);
  EXPECT_EQ(explain.head, 2);
  EXPECT_EQ(explain.sequence, 3);
  EXPECT_EQ(explain.limits.max_rows, 4);
  EXPECT_EQ(explain.limits.max_columns, 5);
}

TEST_F(OptionsTest, AcceptsThePublicQuestionWithoutInputs) {
  EXPECT_TRUE(Good<ExplainOptions>({"explain", "--public-question"}).public_question);
  EXPECT_TRUE(Good<ExplainOptions>({"explain", "--demo"}).public_question);
  const auto explain =
      Good<ExplainOptions>({"explain", "--demo", "--compute-dtype", "bfloat16", "--heatmap", "map.png"});
  EXPECT_EQ(explain.inputs.compute_dtype, DataType::kBFloat16);
  EXPECT_EQ(explain.heatmap, "map.png");
}

TEST_F(OptionsTest, ReadsHealth) {
  EXPECT_EQ(Good<HealthOptions>({"health"}).service, "");
  EXPECT_EQ(Good<HealthOptions>({"health", "attention.v1.AttentionService"}).service, "attention.v1.AttentionService");
}

TEST_F(OptionsTest, ReadsClosedAndOpenLoops) {
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

TEST_F(OptionsTest, ReadsBreakdownAndRandomLengths) {
  EXPECT_TRUE(Good<BenchOptions>({"bench", "w", "--breakdown", "--kv-length", "5"}).breakdown);
  EXPECT_TRUE(Good<BenchOptions>({"bench", "w", "--random-lengths", "--rate", "5"}).random_lengths);
}

TEST_F(OptionsTest, AcceptsTheServerBeforeAndAfterTheCommand) {
  EXPECT_EQ(Good({"health"}).server.address, "127.0.0.1:50051");
  EXPECT_EQ(Good({"--server", "a:1", "health"}).server.address, "a:1");
  EXPECT_EQ(Good({"weights", "list", "--server", "unix:/run/a", "--timeout", "2m"}).server.address, "unix:/run/a");
  EXPECT_EQ(Good({"weights", "list", "--timeout", "2m"}).server.timeout, seconds(120));
  EXPECT_EQ(Good({"health", "--timeout", "1.5"}).server.timeout, milliseconds(1500));
}

TEST_F(OptionsTest, PrefersTheCommandLineToTheEnvironment) {
  setenv("ATTENTION_SERVER", "env:1", 1);
  EXPECT_EQ(Good({"health"}).server.address, "env:1");
  EXPECT_EQ(Good({"health", "--server", "line:1"}).server.address, "line:1");
}

TEST_F(OptionsTest, PrintsHelp) {
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
        BadCase{"NoInput", {"attend", "w"}, "--inputs-q: required\n"},
        BadCase{"NoWeightSet",
                {"explain", "--inputs-q", "[1]"},
                "attentionctl: weight_set or --num-heads: required (or --public-question)\n"},
        BadCase{"ExplainNoInput", {"explain", "w"}, "--inputs-q: required (or --public-question)"},
        BadCase{"AttendNoWeightSet", {"attend", "--inputs-q", "[1]"}, "weight_set or --num-heads: required\n"},
        BadCase{"HeadsAndWeightSet",
                {"attend", "w", "--inputs-q", "[1]", "--num-heads", "1", "--axes", "length-heads"},
                "excludes --num-heads"},
        BadCase{"HeadsWithoutAxes", {"attend", "--inputs-q", "[1]", "--num-heads", "1"}, "requires --axes"},
        BadCase{"AxesWithoutHeads", {"attend", "w", "--inputs-q", "[1]", "--axes", "length-heads"}, "--num-heads"},
        BadCase{"KvHeadsAlone", {"attend", "w", "--inputs-q", "[1]", "--num-kv-heads", "1"}, "requires --num-heads"},
        BadCase{"NoHeads",
                {"attend", "--inputs-q", "[1]", "--num-heads", "0", "--axes", "length-heads"},
                "--num-heads: expected an integer of at least 1, got 0"},
        BadCase{"UnknownAxes",
                {"attend", "--inputs-q", "[1]", "--num-heads", "1", "--axes", "nope"},
                "--axes: expected length-features|length-heads|heads-length, got nope"},
        BadCase{"UnknownDiagonal",
                {"attend", "w", "--inputs-q", "[1]", "--causal", "left"},
                "--causal: expected top-left, bottom-right or an integer, got left"},
        BadCase{"WindowWithoutPlace", {"attend", "w", "--inputs-q", "[1]", "--window", "1,1"}, "requires --window-at"},
        BadCase{"PlaceWithoutWindow", {"attend", "w", "--inputs-q", "[1]", "--window-at", "0"}, "requires --window"},
        BadCase{"HalfAWindow",
                {"attend", "w", "--inputs-q", "[1]", "--window-at", "0", "--window", "1"},
                "--window: expected LEFT,RIGHT, got 1"},
        BadCase{"NoLength",
                {"attend", "w", "--inputs-q", "[1]", "--kv-lengths", "3,x"},
                "--kv-lengths: expected integers separated by commas, got 3,x"},
        BadCase{"UnknownEmptyRows",
                {"attend", "w", "--inputs-q", "[1]", "--empty-rows", "mean"},
                "--empty-rows: expected uniform|zero|error, got mean"},
        BadCase{"UnknownComputeType",
                {"attend", "w", "--inputs-q", "[1]", "--compute-dtype", "int8"},
                "--compute-dtype: expected float32|bfloat16, got int8"},
        BadCase{"NoTopKeys",
                {"attend", "w", "--inputs-q", "[1]", "--top-k", "0"},
                "--top-k: expected an integer of at least 1, got 0"},
        BadCase{"QuestionWithCausal", {"explain", "--demo", "--causal", "0"}, "cannot be combined with --causal"},
        BadCase{"QuestionWithHeads",
                {"explain", "--demo", "--num-heads", "1", "--axes", "length-heads"},
                "--public-question: cannot be combined with --num-heads"},
        BadCase{"QuestionWithInput", {"explain", "--demo", "--mask", "[1]"}, "cannot be combined with --mask"},
        BadCase{"ZeroRate", {"bench", "w", "--rate", "0"}, "--rate: expected a number from 0.001 to 1e+06, got 0"},
        BadCase{"BreakdownOfMany", {"bench", "w", "--breakdown", "--concurrency", "2"}, "excludes --breakdown"},
        BadCase{"BreakdownAtARate", {"bench", "w", "--rate", "2", "--breakdown"}, "excludes"},
        BadCase{"UnknownUnit",
                {"bench", "w", "--duration", "5h"},
                "--duration: expected a time such as 500ms, 5s or 2m, from 1ms to 1000000s, got 5h"},
        BadCase{"ZeroDuration", {"bench", "w", "--duration", "0"}, "--duration: expected a time such as"},
        BadCase{"NoNumber",
                {"bench", "w", "--batch", "many"},
                "--batch: expected an integer from 1 to 2147483648, got many"},
        BadCase{"PriorityTooLarge",
                {"attend", "w", "--inputs-q", "[1]", "--priority", "3000000000"},
                "--priority: expected an integer from -2147483648 to 2147483647, got 3000000000"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace attention::cli
