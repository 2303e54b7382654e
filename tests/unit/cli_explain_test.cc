#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "client/cli/explain_steps.h"
#include "client/cli/hand_calculation.h"
#include "client/cli/literal.h"
#include "client/cli/public_question.h"
#include "tests/testing/matchers.h"

namespace attention::cli {
namespace {

using absl::StatusCode;
using test::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Tensor Literal(const std::string& text, DataType dtype = DataType::kFloat32) {
  return ParseLiteral(text, dtype).value();
}

// A request and its reply that a server would give, all written out by hand.
struct Example {
  WeightSetInfo weight_set;
  Tensor inputs_q;
  std::optional<Tensor> inputs_k, inputs_v, mask;
  AttendReply reply;

  absl::StatusOr<ExplainedCall> Call() const {
    AttendRequest request;
    request.inputs_q = inputs_q;
    if (inputs_k) request.inputs_k = *inputs_k;
    if (inputs_v) request.inputs_v = *inputs_v;
    if (mask) request.mask = *mask;
    return ExplainedCall::Create(weight_set, request, reply);
  }
  std::string Explain(const ExplainSettings& settings = {}) const { return ExplainSteps(*Call(), settings).value(); }
};

WeightSetInfo OnesWeightSet() {
  WeightSetInfo info;
  info.name = "demo/ones";
  info.in_features = info.in_k_features = info.in_v_features = 3;
  info.num_heads = 1;
  info.head_dim = info.out_features = 4;
  info.parameters = {{"query/bias", "float32", {1, 4}}, {"query/kernel", "float32", {3, 1, 4}}};
  return info;
}

// The public question: dst asks, src answers. Scores 24 and 18, so the weights are 1/(1+exp(-6)) and the rest.
Example QueriesFromDst() {
  const PublicQuestion question = MakePublicQuestion();
  Example example{OnesWeightSet(), question.dst, question.src, {}, {}, {}};
  example.reply.version = 5;
  example.reply.intermediates = {.query = Literal("[[[[3, 3, 3, 3]], [[3, 3, 3, 3]]]]"),
                                 .key = Literal("[[[[4, 4, 4, 4]], [[3, 3, 3, 3]]]]"),
                                 .value = Literal("[[[[4, 4, 4, 4]], [[3, 3, 3, 3]]]]"),
                                 .scores = Literal("[[[[24, 18], [24, 18]]]]"),
                                 .context = Literal("[[[[3.9975274, 3.9975274, 3.9975274, 3.9975274]],"
                                                    "  [[3.9975274, 3.9975274, 3.9975274, 3.9975274]]]]")};
  example.reply.attn_weights = Literal("[[[[0.99752736, 0.0024726233], [0.99752736, 0.0024726233]]]]");
  example.reply.output = Literal(
      "[[[3.9975274, 3.9975274, 3.9975274, 3.9975274],"
      "  [3.9975274, 3.9975274, 3.9975274, 3.9975274]]]");
  return example;
}

// src asks, dst answers: both keys are the same, so the weights are even and the values alike.
Example QueriesFromSrc() {
  const PublicQuestion question = MakePublicQuestion();
  Example example{OnesWeightSet(), question.src, question.dst, {}, {}, {}};
  example.reply.intermediates = {.query = Literal("[[[[4, 4, 4, 4]], [[3, 3, 3, 3]]]]"),
                                 .key = Literal("[[[[3, 3, 3, 3]], [[3, 3, 3, 3]]]]"),
                                 .value = Literal("[[[[3, 3, 3, 3]], [[3, 3, 3, 3]]]]"),
                                 .scores = Literal("[[[[24, 24], [18, 18]]]]"),
                                 .context = Literal("[[[[3, 3, 3, 3]], [[3, 3, 3, 3]]]]")};
  example.reply.attn_weights = Literal("[[[[0.5, 0.5], [0.5, 0.5]]]]");
  example.reply.output = Literal("[[[3, 3, 3, 3], [3, 3, 3, 3]]]");
  return example;
}

// Self-attention without batch axes, two heads of one number; row 1 sees nothing, row 0 only itself.
Example TwoHeadsWithMask() {
  WeightSetInfo info;
  info.name = "two";
  info.in_features = info.in_k_features = info.in_v_features = 1;
  info.num_heads = 2;
  info.head_dim = 1;
  info.out_features = 1;
  Example example{info, Literal("[[1], [2]]"), {}, {}, Literal("[[true, false], [false, false]]", DataType::kBool), {}};
  example.reply.intermediates = {.query = Literal("[[[1], [10]], [[2], [20]]]"),
                                 .key = Literal("[[[1], [-1]], [[2], [-2]]]"),
                                 .value = Literal("[[[5], [6]], [[7], [8]]]"),
                                 .scores = Literal("[[[1, 2], [2, 4]], [[-10, -20], [-20, -40]]]"),
                                 .context = Literal("[[[5], [6]], [[6], [7]]]")};
  example.reply.attn_weights = Literal("[[[1, 0], [0.5, 0.5]], [[1, 0], [0.5, 0.5]]]");
  example.reply.output = Literal("[[11], [13]]");
  return example;
}

TEST(ExplainStepsTest, SaysWhoAsksAndWhoIsAsked) {
  Example example = QueriesFromDst();
  EXPECT_THAT(example.Explain(), AllOf(HasSubstr("inputs_q -> queries (2 rows ask)\n"),
                                       HasSubstr("inputs_k, and inputs_v left out, so the same -> keys and values "
                                                 "(2 rows are asked)\n")));
  example.inputs_v = example.inputs_k;
  EXPECT_THAT(example.Explain(), AllOf(HasSubstr("inputs_k -> keys (2 rows are asked)\n"),
                                       HasSubstr("inputs_v -> values (what the asked rows answer)\n")));
  EXPECT_THAT(TwoHeadsWithMask().Explain(),
              HasSubstr("inputs_k and inputs_v left out, so inputs_q again -> keys and values (2 rows are asked): "
                        "self-attention\n"));
}

TEST(ExplainStepsTest, ShowsShapesOfKernelsAndOnlyTheBiasesThatThereAre) {
  const std::string text = QueriesFromDst().Explain();
  EXPECT_THAT(text,
              HasSubstr("query = inputs_q [1, 2, 3] · query_kernel [3, 1, 4] + query_bias [1, 4] -> [1, 2, 1, 4]\n"
                        "      query_0 = [3.0, 3.0, 3.0, 3.0]\n"));
  EXPECT_THAT(text, HasSubstr("key = inputs_k [1, 2, 3] · key_kernel [3, 1, 4] -> [1, 2, 1, 4]\n"
                              "      key_0 = [4.0, 4.0, 4.0, 4.0]\n"
                              "      key_1 = [3.0, 3.0, 3.0, 3.0]\n"));
}

TEST(ExplainStepsTest, CalculatesThePublicQuestionByHand) {
  const std::string text = QueriesFromDst().Explain();
  EXPECT_THAT(text, HasSubstr("Weight set demo/ones, version 5: 1 head of 4 numbers, out_features 4\n"));
  EXPECT_THAT(text, HasSubstr("q·k_0 = 3.0·4.0 + 3.0·4.0 + 3.0·4.0 + 3.0·4.0 = 48.0, / √4 = 24.0\n"));
  EXPECT_THAT(text, HasSubstr("q·k_1 = 3.0·3.0 + 3.0·3.0 + 3.0·3.0 + 3.0·3.0 = 36.0, / √4 = 18.0\n"
                              "   scores = [24.0, 18.0]\n"));
  EXPECT_THAT(text, HasSubstr("4. Mask: none given, so every query sees every key\n"));
  EXPECT_THAT(text, HasSubstr("key 0: exp(24.0 - 24.0) = 1.0, / sum = 0.99752736\n"
                              "      key 1: exp(18.0 - 24.0) = 0.0024787523, / sum = 0.0024726233\n"
                              "      sum = 1.0024787\n"
                              "   attn_weights = [0.99752736, 0.0024726233]\n"));
  EXPECT_THAT(text, HasSubstr("        0.99752736 · [4.0, 4.0, 4.0, 4.0]\n"
                              "      + 0.0024726233 · [3.0, 3.0, 3.0, 3.0]\n"
                              "      = [3.9975274, 3.9975274, 3.9975274, 3.9975274]\n"));
  EXPECT_THAT(text, HasSubstr("7. Output row 0: context [1, 4] · out_kernel [1, 4, 4] + out_bias\n"
                              "   output = [3.9975274, 3.9975274, 3.9975274, 3.9975274]\n"));
}

TEST(ExplainStepsTest, ShowsHiddenKeys) {
  EXPECT_THAT(TwoHeadsWithMask().Explain({.spot = {.head = 1}}),
              AllOf(HasSubstr("here head 1 of 2\n"), HasSubstr("q·k_1 = 10.0·(-2.0) = -20.0, / √1 = -20.0\n"),
                    HasSubstr("4. Mask [2, 2], broadcast to [2, 2, 2]: this row sees 1 of 2 keys\n"
                              "   scores = [-10.0, hidden]\n"),
                    HasSubstr("key 1: hidden, weight 0\n"), HasSubstr("(all 2 heads together)")));
}

TEST(ExplainStepsTest, ExplainsARowThatSeesNoKey) {
  EXPECT_THAT(
      TwoHeadsWithMask().Explain({.spot = {.row = 1}}),
      AllOf(HasSubstr("this row sees 0 of 2 keys\n   scores = [hidden, hidden]\n"),
            HasSubstr("the row sees no key, so all 2 keys get the same weight\n   attn_weights = [0.5, 0.5]\n")));
}

TEST(ExplainStepsTest, ExplainsThatThereIsNoKey) {
  Example example = QueriesFromDst();
  example.inputs_k = Literal("[[]]");
  example.inputs_k->shape = {1, 0, 3};
  for (Tensor* tensor : {&example.reply.intermediates->key, &example.reply.intermediates->value}) {
    *tensor = {DataType::kFloat32, {1, 0, 1, 4}, ""};
  }
  for (Tensor* tensor : {&example.reply.intermediates->scores, &*example.reply.attn_weights}) {
    *tensor = {DataType::kFloat32, {1, 1, 2, 0}, ""};
  }
  EXPECT_THAT(example.Explain(), AllOf(HasSubstr("(0 rows are asked)"), HasSubstr("3. No key: nothing is asked"),
                                       Not(HasSubstr("check:"))));
}

TEST(ExplainStepsTest, AbbreviatesLongAxes) {
  const std::string text = QueriesFromDst().Explain({.limits = {.max_rows = 1, .max_columns = 2}});
  EXPECT_THAT(text, HasSubstr("      query_0 = [3.0, …, 3.0]\n      …\n"));
  EXPECT_THAT(text, Not(HasSubstr("query_1")));
}

TEST(ExplainStepsTest, RefusesASpotThatIsNotInTheCall) {
  const ExplainedCall call = QueriesFromDst().Call().value();
  EXPECT_THAT(
      ExplainSteps(call, {.spot = {.row = 2}}),
      StatusIs(StatusCode::kInvalidArgument, HasSubstr("--row: wanted 0 to 1 (2 query rows in the request), found 2")));
  EXPECT_THAT(ExplainSteps(call, {.spot = {.head = -1}}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("--head: wanted 0 to 0")));
  EXPECT_THAT(ExplainSteps(call, {.spot = {.sequence = 1}}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("--sequence")));
}

TEST(ExplainStepsTest, CheckLineTellsTheLargestDifference) {
  EXPECT_THAT(TwoHeadsWithMask().Explain(), HasSubstr("scores 0, attn_weights 0, context 0\n"));
  Example wrong = TwoHeadsWithMask();
  wrong.reply.intermediates->context = Literal("[[[5], [6.5]], [[6], [7]]]");
  wrong.reply.intermediates->scores = Literal("[[[1, 2], [2, 4]], [[-10, -20], [-20, -36]]]");
  EXPECT_THAT(wrong.Explain(), HasSubstr("scores 4, attn_weights 0, context 0.5\n"));
}

TEST(HandCalculationTest, AHiddenKeyMayHoldNaN) {
  Example example = TwoHeadsWithMask();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (Tensor* tensor : {&example.reply.intermediates->key, &example.reply.intermediates->value}) {
    tensor->bytes.replace(8, 4, reinterpret_cast<const char*>(&nan), 4);
  }
  const RowByHand row = CalculateByHand(*example.Call(), {});
  EXPECT_TRUE(std::isnan(row.scores[1]));
  EXPECT_THAT(row.attn_weights, ElementsAre(1, 0));
  EXPECT_THAT(row.context, ElementsAre(5));
}

TEST(ExplainedCallTest, RefusesARepliesShapeThatContradictsTheRequest) {
  Example example = QueriesFromDst();
  example.reply.intermediates->key = Literal("[[[[4, 4, 4, 4]]]]");
  EXPECT_THAT(example.Call(),
              StatusIs(StatusCode::kInternal, HasSubstr("key: wanted shape [1, 2, 1, 4], found [1, 1, 1, 4]")));
  example.reply.intermediates.reset();
  EXPECT_THAT(example.Call(), StatusIs(StatusCode::kInternal, HasSubstr("no intermediate values")));
}

TEST(PublicQuestionTest, ShowsBothResultsAndWhereTheManualOneCameFrom) {
  const std::string text = ExplainPublicQuestion(*QueriesFromDst().Call(), *QueriesFromSrc().Call(), {}).value();
  EXPECT_THAT(text,
              AllOf(HasSubstr("A. inputs_q = dst, inputs_k = src (dst asks, src answers): every output 3.9975274"),
                    HasSubstr("B. inputs_q = src, inputs_k = dst (src asks, dst answers): every output 3.0"),
                    HasSubstr("dst -> queries (2 rows ask)"),
                    HasSubstr("0.99609375 · 4.0 + 0.0024719238 · 3.0 = 3.9917908\n")));
}

TEST(PublicQuestionTest, RoundedWeightsGiveTheManualResult) {
  EXPECT_EQ(BFloat16Context(*QueriesFromDst().Call(), {}, 0), 3.991790771484375);
}

TEST(PublicQuestionTest, WithoutRoundingTheContextIsThatOfTheFormula) {
  EXPECT_DOUBLE_EQ(Float64Context(*QueriesFromDst().Call(), {}, 0), 3 + 1 / (1 + std::exp(-6.0)));
}

TEST(PublicQuestionTest, RoundsToBFloat16) {
  EXPECT_EQ(RoundToBFloat16(0.9975274), 0.99609375);
  EXPECT_EQ(RoundToBFloat16(3.0), 3.0);
}

}  // namespace
}  // namespace attention::cli
