#include "client/cli/explain/explain_steps.h"

#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

#include "absl/strings/str_replace.h"
#include "client/cli/explain/hand_calculation.h"
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

TEST(FormulaTextTest, EqualsTheProtocolDocumentation) {
  std::ifstream file(ATTENTION_SOURCE_DIR "/proto/attention/v1/attention.proto");
  ASSERT_TRUE(file.is_open());
  std::stringstream proto;
  proto << file.rdbuf();
  const std::string comment = "//   " + absl::StrReplaceAll(FormulaText().substr(2), {{"\n  ", "\n//   "}});
  EXPECT_THAT(proto.str(), HasSubstr(comment));
}

TEST(ExplainStepsTest, NamesTheInputsOfQueriesKeysAndValues) {
  Example example = QueriesFromDst();
  EXPECT_THAT(example.Explain(),
              HasSubstr("   query input: inputs_q, 2 rows\n"
                        "   key and value input: inputs_k, 2 rows (inputs_v defaults to inputs_k)\n"));
  example.inputs_v = example.inputs_k;
  EXPECT_THAT(example.Explain(), HasSubstr("   query input: inputs_q, 2 rows\n"
                                           "   key input: inputs_k, 2 rows\n"
                                           "   value input: inputs_v, 2 rows\n"));
  EXPECT_THAT(TwoHeadsWithMask().Explain(),
              HasSubstr("   query input: inputs_q, 2 rows\n"
                        "   key and value input: inputs_q, 2 rows (self-attention: inputs_k and inputs_v default to "
                        "inputs_q)\n"));
}

TEST(ExplainStepsTest, ShowsShapesOfKernelsAndExistingBiases) {
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
  EXPECT_THAT(text, HasSubstr("Weight set demo/ones, version 5: 1 head, head_dim 4, out_features 4\n"));
  EXPECT_THAT(text, HasSubstr("q·k_0 = 3.0·4.0 + 3.0·4.0 + 3.0·4.0 + 3.0·4.0 = 48.0; 48.0 / √4 = 24.0\n"));
  EXPECT_THAT(text, HasSubstr("q·k_1 = 3.0·3.0 + 3.0·3.0 + 3.0·3.0 + 3.0·3.0 = 36.0; 36.0 / √4 = 18.0\n"
                              "   scores = [24.0, 18.0]\n"));
  EXPECT_THAT(text, HasSubstr("4. Mask: none, so every query sees every key\n"));
  EXPECT_THAT(text, HasSubstr("key 0: exp(24.0 - 24.0) = 1.0; 1.0 / sum = 0.99752736\n"
                              "      key 1: exp(18.0 - 24.0) = 0.0024787523; 0.0024787523 / sum = 0.0024726233\n"
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
              AllOf(HasSubstr("; shown for head 1 of 2, counted from 0\n"),
                    HasSubstr("q·k_1 = 10.0·(-2.0) = -20.0; -20.0 / √1 = -20.0\n"),
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

TEST(ExplainStepsTest, ExplainsACallWithoutKeys) {
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
  EXPECT_THAT(example.Explain(),
              AllOf(HasSubstr("inputs_k, 0 rows"),
                    HasSubstr("3. There are no keys, so the context is 0 and the output is out_bias\n"),
                    Not(HasSubstr("check:"))));
}

TEST(ExplainStepsTest, AbbreviatesLongAxes) {
  const std::string text = QueriesFromDst().Explain({.limits = {.max_rows = 1, .max_columns = 2}});
  EXPECT_THAT(text, HasSubstr("      query_0 = [3.0, …, 3.0]\n      …\n"));
  EXPECT_THAT(text, Not(HasSubstr("query_1")));
}

TEST(ExplainStepsTest, RefusesASpotThatIsNotInTheCall) {
  const ExplainedCall call = QueriesFromDst().Call().value();
  EXPECT_THAT(ExplainSteps(call, {.spot = {.row = 2}}),
              StatusIs(StatusCode::kInvalidArgument, "--row: expected 0 to 1 (the request has 2 query rows), got 2"));
  EXPECT_THAT(ExplainSteps(call, {.spot = {.head = -1}}),
              StatusIs(StatusCode::kInvalidArgument, "--head: expected 0 (the request has 1 head), got -1"));
  EXPECT_THAT(ExplainSteps(call, {.spot = {.sequence = 1}}),
              StatusIs(StatusCode::kInvalidArgument, "--sequence: expected 0 (the request has 1 sequence), got 1"));
}

TEST(ExplainStepsTest, PrintsTheLargestDifferences) {
  EXPECT_THAT(TwoHeadsWithMask().Explain(), HasSubstr("scores 0, attn_weights 0, context 0\n"));
  Example wrong = TwoHeadsWithMask();
  wrong.reply.intermediates->context = Literal("[[[5], [6.5]], [[6], [7]]]");
  wrong.reply.intermediates->scores = Literal("[[[1, 2], [2, 4]], [[-10, -20], [-20, -36]]]");
  EXPECT_THAT(wrong.Explain(), HasSubstr("scores 4, attn_weights 0, context 0.5\n"));
  wrong.reply.attn_weights = Literal("[[[1, 0], [0.5, 0.5]], [[1, 0], [0.25, 0.75]]]");
  EXPECT_THAT(wrong.Explain(), HasSubstr("attn_weights 0.25,"));
}

TEST(HandCalculationTest, IgnoresNanAtHiddenKeys) {
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

TEST(ExplainedCallTest, RefusesAReplyThatContradictsTheRequest) {
  Example example = QueriesFromDst();
  example.reply.intermediates->key = Literal("[[[[4, 4, 4, 4]]]]");
  EXPECT_THAT(example.Call(),
              StatusIs(StatusCode::kInternal, "reply.key: expected shape [1, 2, 1, 4], got [1, 1, 1, 4]"));
  example.reply.intermediates.reset();
  EXPECT_THAT(example.Call(), StatusIs(StatusCode::kInternal, "reply.intermediates: missing"));
}

}  // namespace
}  // namespace attention::cli
