#include <gmock/gmock.h>

#include <fstream>
#include <limits>
#include <sstream>

#include "absl/strings/str_replace.h"
#include "client/cli/explain/explain_steps.h"
#include "client/cli/explain/hand_calculation.h"
#include "tests/testing/matchers.h"
#include "tests/unit/cli/explain/explain_example.h"

namespace attention::cli {
namespace {

using absl::StatusCode;
using test::StatusIs;
using ::testing::AllOf;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(FormulaTextTest, IsThatOfTheProtocol) {
  std::ifstream file(ATTENTION_SOURCE_DIR "/proto/attention/v1/attention.proto");
  ASSERT_TRUE(file.is_open());
  std::stringstream proto;
  proto << file.rdbuf();
  const std::string comment = "//   " + absl::StrReplaceAll(FormulaText().substr(2), {{"\n  ", "\n//   "}});
  EXPECT_THAT(proto.str(), HasSubstr(comment));
}

TEST(ExplainOptionsTest, ExplainsAttentionWithoutProjections) {
  const std::string text = SharedKeys().Explain({.spot = {.head = 1}});
  EXPECT_THAT(text, HasSubstr("Attention without a weight set: 2 heads of 1 number, 1 head of keys and values, values "
                              "of 2 numbers\n"));
  EXPECT_THAT(text, HasSubstr("2. No projections, the inputs are query, key and value: one vector of head_dim = 1 "
                              "numbers (for values value_head_dim = 2) a row and head; here head 1 of 2, which meets "
                              "head 0 of 1 of keys and values\n"
                              "   query = inputs_q [1, 2, 1] -> [1, 2, 1]\n"
                              "      query_0 = [4.0]\n"
                              "   key = inputs_k [2, 1, 1] -> [2, 1, 1]\n"
                              "      key_0 = [3.0]\n"));
  EXPECT_THAT(text, HasSubstr("q·k_1 = 4.0·(-1.0) = -4.0, / √1 = -4.0\n   scores = [12.0, -4.0]\n"));
  EXPECT_THAT(text, HasSubstr("4. Mask: none given"));
  EXPECT_THAT(text, HasSubstr("7. Output row 0: the context itself, as [batch…, length, heads, head_dim]; here head "
                              "1\n   output = [0.9999999, 1.1253516e-07]\n"));
}

TEST(ExplainOptionsTest, FindsTheHeadsInEveryLayout) {
  // Two queries of two heads; the same numbers in each layout.
  const struct {
    HeadAxes axes;
    const char* inputs_q;
    const char* text;
  } layouts[] = {
      {HeadAxes::kLengthFeatures, "[[[1, 2], [3, 4]]]", "[batch…, length, heads × head_dim]"},
      {HeadAxes::kLengthHeads, "[[[[1], [2]], [[3], [4]]]]", "[batch…, length, heads, head_dim]"},
      {HeadAxes::kHeadsLength, "[[[[1], [3]], [[2], [4]]]]", "[batch…, heads, length, head_dim]"},
  };
  for (const auto& layout : layouts) {
    Example example{.inputs_q = Literal(layout.inputs_q)};
    example.options.heads = HeadLayout{.num_heads = 2, .axes = layout.axes};
    example.reply.intermediates = {.scores = Literal("[[[[1, 3], [3, 9]], [[4, 8], [8, 16]]]]"),
                                   .masked_scores = Literal("[[[[1, 3], [3, 9]], [[4, 8], [8, 16]]]]"),
                                   .context = Literal("[[[[1], [2]], [[3], [4]]]]")};
    example.reply.attn_weights = Literal("[[[[1, 0], [0, 1]], [[1, 0], [0, 1]]]]");
    example.reply.output = example.inputs_q;
    const ExplainedCall call = example.Call().value();
    EXPECT_THAT(call.QueryAt({0, 1, 0}), ElementsAre(2)) << layout.text;
    EXPECT_THAT(call.KeyAt({0, 0, 0}, 1), ElementsAre(3)) << layout.text;
    EXPECT_THAT(call.OutputAt({0, 1, 1}), ElementsAre(4)) << layout.text;
    EXPECT_EQ(CompareByHand(call).scores, 0) << layout.text;
    EXPECT_THAT(example.Explain(), HasSubstr(layout.text));
  }
}

TEST(ExplainOptionsTest, RefusesHeadsThatTheInputsDoNotHave) {
  Example example = SharedKeys();
  example.options.heads->num_heads = 3;
  EXPECT_THAT(example.Call(), StatusIs(StatusCode::kInvalidArgument,
                                       "shape [1, 2, 1] is not [batch…, length, heads, head_dim] with 3 heads"));
  example.options.heads.reset();
  EXPECT_EQ(example.Call().status().code(), StatusCode::kInvalidArgument);
}

TEST(ExplainOptionsTest, ExplainsScaleAndSoftcap) {
  Example example = SharedKeys();
  example.options.scale = 0.5f;
  example.options.softcap = 2.0f;
  example.reply.intermediates->scores = Literal("[[[3, -1]], [[6, -2]]]");
  example.reply.intermediates->capped_scores = Literal("[[[1.8102965, -0.92423433]], [[1.9901096, -1.5231883]]]");
  example.reply.intermediates->masked_scores = *example.reply.intermediates->capped_scores;
  EXPECT_THAT(example.Explain(),
              AllOf(HasSubstr("3. Scores: query row 0 with every key, times scale = 0.5\n"),
                    HasSubstr("q·k_0 = 2.0·3.0 = 6.0, · 0.5 = 3.0\n"),
                    HasSubstr("   scores = [3.0, -1.0]\n"
                              "   Soft cap: no score beyond 2.0\n"
                              "      key 0: 2.0 · tanh(3.0 / 2.0) = 1.8102965\n"
                              "      key 1: 2.0 · tanh(-1.0 / 2.0) = -0.92423433\n"
                              "   capped_scores = [1.8102965, -0.92423433]\n\n"),
                    HasSubstr("key 0: exp(1.8102965 - 1.8102965) = 1.0"), HasSubstr(", capped_scores ")));
  const Differences differences = CompareByHand(*example.Call());
  EXPECT_EQ(differences.scores, 0);
  EXPECT_LT(differences.capped_scores, 1e-7);
  example.options.scale = -2.0f;
  EXPECT_THAT(example.Explain(), HasSubstr("q·k_0 = 2.0·3.0 = 6.0, · (-2.0) = -12.0\n"));
}

TEST(ExplainOptionsTest, TheReplyMustHaveCappedScoresIfThereIsASoftcap) {
  Example example = SharedKeys();
  example.options.softcap = 2.0f;
  EXPECT_THAT(example.Call(), StatusIs(StatusCode::kInternal, "reply: capped_scores: not in it"));
}

TEST(ExplainOptionsTest, AddsTheBias) {
  Example example = SharedKeys();
  example.bias = Literal("[[[1, -inf]], [[-3, 2]]]");
  example.reply.intermediates->masked_scores = Literal("[[[7, -inf]], [[9, -2]]]");
  EXPECT_THAT(example.Explain(), HasSubstr("4. Bias and mask: this row sees 1 of 2 keys\n"
                                           "      bias [2, 1, 2], broadcast to [2, 1, 2]\n"
                                           "      key 0: 6.0 + 1.0 = 7.0\n"
                                           "      key 1: hidden\n"
                                           "   masked_scores = [7.0, hidden]\n"));
  EXPECT_THAT(example.Explain({.spot = {.head = 1}}), HasSubstr("key 0: 12.0 + (-3.0) = 9.0\n"));
  EXPECT_EQ(CompareByHand(*example.Call()).masked_scores, 0);
  example.reply.intermediates->masked_scores = Literal("[[[7, -inf]], [[9, -2.5]]]");
  EXPECT_THAT(example.Explain(), HasSubstr(", masked_scores 0.5, "));
  example.bias = Literal("[1, 2, 3]");
  EXPECT_THAT(example.Call(),
              StatusIs(StatusCode::kInvalidArgument, "bias: shape [3] does not broadcast to [2, 1, 2]"));
}

TEST(ExplainOptionsTest, NamesEachPartOfTheMask) {
  const std::vector<int64_t> kv_lengths = {2}, q_lengths = {1};
  Example example = SharedKeys();
  example.mask = Literal("[true, true]", DataType::kBool);
  example.options.mask = {.causal = Corner::kBottomRight,
                          .window = SlidingWindow{.diagonal = -3, .left = 1},
                          .kv_lengths = kv_lengths,
                          .q_lengths = q_lengths};
  example.q_segment_ids = Literal("[7]", DataType::kInt64);
  example.kv_segment_ids = Literal("[7, 8]", DataType::kInt64);
  example.reply.intermediates->masked_scores = Literal("[[[6, -inf]], [[12, -inf]]]");
  EXPECT_THAT(example.Explain(), HasSubstr("4. Mask: this row sees 1 of 2 keys\n"
                                           "      mask [2], broadcast to [2, 1, 2]\n"
                                           "      causal (bottom-right, offset 1): keys up to 0 + offset = 1\n"
                                           "      window (offset -3): keys from -4 to the last\n"
                                           "      kv_lengths: the first 2 of 2 keys\n"
                                           "      segment ids: this query is in segment 7, as 1 key\n"
                                           "   masked_scores = [6.0, hidden]\n"));
  example.options.mask.causal = Corner::kTopLeft;
  example.options.mask.window = SlidingWindow{.diagonal = Corner::kTopLeft, .right = 4};
  EXPECT_THAT(example.Explain(), AllOf(HasSubstr("causal (top-left, offset 0): keys up to 0 + offset = 0\n"),
                                       HasSubstr("window (top-left, offset 0): keys from the first to 4\n")));
}

TEST(ExplainOptionsTest, RefusesPartsOfTheMaskThatDoNotFit) {
  const std::vector<int64_t> two = {1, 1};
  Example example = SharedKeys();
  example.options.mask.kv_lengths = two;
  EXPECT_THAT(example.Call(), StatusIs(StatusCode::kInvalidArgument, "mask.kv_lengths: wanted 1, found 2"));
  example = SharedKeys();
  example.options.mask.q_lengths = two;
  EXPECT_THAT(example.Call(), StatusIs(StatusCode::kInvalidArgument, "mask.q_lengths: wanted 1, found 2"));
  example = SharedKeys();
  example.q_segment_ids = Literal("[1]", DataType::kInt64);
  EXPECT_THAT(example.Call(), StatusIs(StatusCode::kInvalidArgument, "mask.kv_segment_ids: wanted 2, found 1"));
}

TEST(ExplainOptionsTest, EmptyRowsAreUniformOrZero) {
  Example example = TwoHeadsWithMask();
  example.options.empty_rows = EmptyRows::kZero;
  example.reply.attn_weights = Literal("[[[1, 0], [0, 0]], [[1, 0], [0, 0]]]");
  example.reply.intermediates->context = Literal("[[[5], [6]], [[0], [0]]]");
  EXPECT_THAT(example.Explain({.spot = {.row = 1}}),
              AllOf(HasSubstr("5. Softmax: the row sees no key, so every weight is 0 (empty_rows ZERO)\n"
                              "   attn_weights = [0.0, 0.0]\n"),
                    HasSubstr("context = [0.0]\n"), HasSubstr("scores 0, attn_weights 0, context 0\n")));
  example.options.empty_rows = EmptyRows::kUniform;
  EXPECT_EQ(CompareByHand(*example.Call()).attn_weights, 0.5);
}

TEST(ExplainOptionsTest, RowsBehindQLengthsAreNotExplained) {
  const std::vector<int64_t> q_lengths = {1};
  Example example = TwoHeadsWithMask();
  example.mask.reset();
  example.options.mask.q_lengths = q_lengths;
  example.reply.intermediates->query = Literal("[[[1], [10]], [[0], [0]]]");
  example.reply.intermediates->scores = Literal("[[[1, 2], [0, 0]], [[-10, -20], [0, 0]]]");
  example.reply.intermediates->masked_scores = example.reply.intermediates->scores;
  EXPECT_THAT(example.Explain({.spot = {.row = 1}}),
              AllOf(HasSubstr("3. Row 1 lies behind the 1 queries of its sequence (q_lengths): it is not computed, and "
                              "all its numbers are 0\n"),
                    Not(HasSubstr("5. Softmax"))));
  EXPECT_EQ(CompareByHand(*example.Call()).scores, 0);
}

TEST(ExplainOptionsTest, RoundsOperandsToBFloat16) {
  Example example = QueriesFromDst();
  example.options.compute_dtype = DataType::kBFloat16;
  example.reply.intermediates->context =
      Literal("[[[[3.9917908, 3.9917908, 3.9917908, 3.9917908]], [[3.9917908, 3.9917908, 3.9917908, 3.9917908]]]]");
  EXPECT_THAT(example.Explain(),
              AllOf(HasSubstr("compute_dtype bfloat16: whatever is multiplied is rounded"),
                    HasSubstr("3. Scores: query row 0, times scale = 0.5, with every key, both rounded to bfloat16\n"
                              "      q   = [1.5, 1.5, 1.5, 1.5]\n"),
                    HasSubstr("q·k_0 = 1.5·4.0 + 1.5·4.0 + 1.5·4.0 + 1.5·4.0 = 24.0\n"),
                    HasSubstr("6. Context: the values, each times its weight, both rounded to bfloat16, added up\n"
                              "        0.99609375 · [4.0, 4.0, 4.0, 4.0]\n"
                              "      + 0.0024719238 · [3.0, 3.0, 3.0, 3.0]\n"
                              "      = [3.9917908, 3.9917908, 3.9917908, 3.9917908]\n"),
                    HasSubstr("out_kernel [1, 4, 4] (both rounded to bfloat16) + out_bias\n")));
  const Differences differences = CompareByHand(*example.Call());
  EXPECT_EQ(differences.scores, 0);
  EXPECT_LT(differences.context, 1e-6);
}

TEST(ExplainOptionsTest, RoundsTheScaledQuery) {
  // 1.00390625 = 1 + 2^-8 is no bfloat16; three times it, 3.01171875, rounds to 3.015625.
  Example example = SharedKeys();
  example.inputs_q = Literal("[[[1.00390625], [1]]]");
  example.options.scale = 3.0f;
  example.options.compute_dtype = DataType::kBFloat16;
  const RowByHand row = CalculateByHand(*example.Call(), {});
  EXPECT_THAT(row.query, ElementsAre(3.015625));
  EXPECT_THAT(row.scores, ElementsAre(3 * 3.015625, -3.015625));
}

TEST(ExplainOptionsTest, TheMeanOfARowWithoutKeysIsNotRounded) {
  // 1.00390625 is no bfloat16.
  Example example = SharedKeys();
  example.inputs_v = Literal("[[[1.00390625, 1]], [[1.00390625, 2]]]");
  example.options.compute_dtype = DataType::kBFloat16;
  example.reply.intermediates->masked_scores = Literal("[[[-inf, -inf]], [[-inf, -inf]]]");
  example.reply.attn_weights = Literal("[[[0.5, 0.5]], [[0.5, 0.5]]]");
  EXPECT_THAT(CalculateByHand(*example.Call(), {}).context, ElementsAre(1.00390625, 1.5));
  EXPECT_THAT(example.Explain(), HasSubstr("6. Context: the values, each times its weight, added up\n"
                                           "        0.5 · [1.0039062, 1.0]\n"));
}

TEST(ExplainOptionsTest, ThePublicQuestionInBFloat16HasTheManualResultAsContext) {
  Example from_dst = QueriesFromDst(), from_src = QueriesFromSrc();
  from_dst.options.compute_dtype = from_src.options.compute_dtype = DataType::kBFloat16;
  from_dst.reply.intermediates->context =
      Literal("[[[[3.9917908, 3.9917908, 3.9917908, 3.9917908]], [[3.9917908, 3.9917908, 3.9917908, 3.9917908]]]]");
  from_dst.reply.output =
      Literal("[[[3.984375, 3.984375, 3.984375, 3.984375], [3.984375, 3.984375, 3.984375, 3.984375]]]");
  const std::string text = ExplainPublicQuestion(*from_dst.Call(), *from_src.Call(), {}).value();
  EXPECT_THAT(text, AllOf(HasSubstr("every context 3.9917908, every output 3.984375; the same steps in float64 give "
                                    "3.9975274\n"),
                          HasSubstr("The question's own result by hand, 3.9917908, is the context of A: it came from"),
                          Not(HasSubstr("--compute-dtype"))));
  EXPECT_THAT(ExplainPublicQuestion(*QueriesFromDst().Call(), *QueriesFromSrc().Call(), {}).value(),
              HasSubstr("(--compute-dtype bfloat16 computes it so, and gives this number as context.)\n"));
}

TEST(ExplainOptionsTest, ShowsTheLayerNormOfQueryAndKey) {
  Example example = QueriesFromDst();
  example.weight_set->normalize_qk = true;
  EXPECT_THAT(example.Explain(),
              AllOf(HasSubstr("1 head of 4 numbers, LayerNorm of query and key, out_features 4\n"),
                    HasSubstr("query = LayerNorm(inputs_q [1, 2, 3] · query_kernel [3, 1, 4] + query_bias [1, 4]) -> "),
                    HasSubstr("key = LayerNorm(inputs_k [1, 2, 3] · key_kernel [3, 1, 4]) -> "),
                    HasSubstr("value = inputs_k [1, 2, 3] · value_kernel [3, 1, 4] -> ")));
}

TEST(ExplainOptionsTest, HeadsOfAWeightSetShareKeysAndValues) {
  // Head h of four meets key and value head h / 2 of two, whose values have three numbers.
  Example example;
  example.weight_set = OnesWeightSet();
  example.weight_set->in_features = example.weight_set->in_k_features = example.weight_set->in_v_features = 1;
  example.weight_set->num_heads = 4;
  example.weight_set->num_kv_heads = 2;
  example.weight_set->head_dim = 1;
  example.weight_set->value_head_dim = 3;
  example.weight_set->out_features = 1;
  example.inputs_q = Literal("[[1]]");
  example.reply.intermediates = {.query = Literal("[[[1], [2], [3], [4]]]"),
                                 .key = Literal("[[[5], [6]]]"),
                                 .value = Literal("[[[1, 2, 3], [4, 5, 6]]]"),
                                 .scores = Literal("[[[5]], [[10]], [[18]], [[24]]]"),
                                 .masked_scores = Literal("[[[5]], [[10]], [[18]], [[24]]]"),
                                 .context = Literal("[[[1, 2, 3], [1, 2, 3], [4, 5, 6], [4, 5, 6]]]")};
  example.reply.attn_weights = Literal("[[[1]], [[1]], [[1]], [[1]]]");
  example.reply.output = Literal("[[0]]");
  EXPECT_THAT(example.Explain({.spot = {.head = 2}}),
              AllOf(HasSubstr("4 heads of 1 number, 2 heads of keys and values, values of 3 numbers, out_features 1\n"),
                    HasSubstr("here head 2 of 4, which meets head 1 of 2 of keys and values\n"),
                    HasSubstr("key_kernel [1, 2, 1] -> [1, 2, 1]\n      key_0 = [6.0]\n"),
                    HasSubstr("value_kernel [1, 2, 3] -> [1, 2, 3]\n      value_0 = [4.0, 5.0, 6.0]\n"),
                    HasSubstr("q·k_0 = 3.0·6.0 = 18.0, / √1 = 18.0\n"),
                    HasSubstr("context [4, 3] (all 4 heads together) · out_kernel [4, 3, 1] + out_bias\n"),
                    HasSubstr("scores 0, attn_weights 0, context 0\n")));
}

}  // namespace
}  // namespace attention::cli
