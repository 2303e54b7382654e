#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "client/cli/explain/explain_steps.h"
#include "client/cli/explain/hand_calculation.h"
#include "client/cli/explain/public_question.h"
#include "tests/testing/matchers.h"
#include "tests/unit/cli/explain/explain_example.h"

namespace attention::cli {
namespace {

using absl::StatusCode;
using test::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

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
                    HasSubstr("4. Mask: this row sees 1 of 2 keys\n"
                              "      mask [2, 2], broadcast to [2, 2, 2]\n"
                              "   masked_scores = [-10.0, hidden]\n"),
                    HasSubstr("key 1: hidden, weight 0\n"), HasSubstr("(all 2 heads together)")));
}

TEST(ExplainStepsTest, ExplainsARowThatSeesNoKey) {
  EXPECT_THAT(TwoHeadsWithMask().Explain({.spot = {.row = 1}}),
              AllOf(HasSubstr("this row sees 0 of 2 keys\n"), HasSubstr("   masked_scores = [hidden, hidden]\n"),
                    HasSubstr("the row sees no key, so all 2 keys get the same weight (empty_rows UNIFORM)\n"
                              "   attn_weights = [0.5, 0.5]\n")));
}

TEST(ExplainStepsTest, ExplainsThatThereIsNoKey) {
  Example example = QueriesFromDst();
  example.inputs_k = Literal("[[]]");
  example.inputs_k->shape = {1, 0, 3};
  for (Tensor* tensor : {&*example.reply.intermediates->key, &*example.reply.intermediates->value}) {
    *tensor = {DataType::kFloat32, {1, 0, 1, 4}, ""};
  }
  for (Tensor* tensor : {&example.reply.intermediates->scores, &example.reply.intermediates->masked_scores,
                         &*example.reply.attn_weights}) {
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
  wrong.reply.attn_weights = Literal("[[[1, 0], [0.5, 0.5]], [[1, 0], [0.25, 0.75]]]");
  EXPECT_THAT(wrong.Explain(), HasSubstr("attn_weights 0.25,"));
}

TEST(HandCalculationTest, AHiddenKeyMayHoldNaN) {
  Example example = TwoHeadsWithMask();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (Tensor* tensor : {&*example.reply.intermediates->key, &*example.reply.intermediates->value}) {
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
