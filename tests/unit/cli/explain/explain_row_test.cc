#include <gmock/gmock.h>

#include "client/cli/explain/explain_steps.h"
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

TEST(ExplainRowTest, ExplainsAttentionWithoutProjections) {
  const std::string text = SharedKeys().Explain({.spot = {.head = 1}});
  EXPECT_THAT(
      text,
      HasSubstr("Attention without a weight set: 2 heads (1 for keys and values), head_dim 1, value_head_dim 2\n"));
  EXPECT_THAT(text, HasSubstr("2. No projections, the inputs are query, key and value: one vector of head_dim = 1 "
                              "numbers (values: value_head_dim = 2) for each row and head; shown for head 1 of 2, its "
                              "key and value head 0 of 1, counted from 0\n"
                              "   query = inputs_q [1, 2, 1] -> [1, 2, 1]\n"
                              "      query_0 = [4.0]\n"
                              "   key = inputs_k [2, 1, 1] -> [2, 1, 1]\n"
                              "      key_0 = [3.0]\n"));
  EXPECT_THAT(text, HasSubstr("q·k_1 = 4.0·(-1.0) = -4.0; -4.0 / √1 = -4.0\n   scores = [12.0, -4.0]\n"));
  EXPECT_THAT(text, HasSubstr("4. Mask: none, "));
  EXPECT_THAT(text, HasSubstr("7. Output row 0: the context itself, as [batch…, length, heads, head_dim]; shown for "
                              "head 1\n   output = [0.9999999, 1.1253516e-07]\n"));
}

TEST(ExplainRowTest, FindsTheHeadsInEveryLayout) {
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

TEST(ExplainRowTest, RefusesInputsOfOtherHeads) {
  Example example = SharedKeys();
  example.options.heads->num_heads = 3;
  EXPECT_THAT(example.Call(),
              StatusIs(StatusCode::kInvalidArgument,
                       "inputs_q: expected [batch…, length, heads, head_dim] with 3 heads, got shape [1, 2, 1]"));
  example.options.heads.reset();
  EXPECT_EQ(example.Call().status().code(), StatusCode::kInvalidArgument);
}

TEST(ExplainRowTest, ExplainsScaleAndSoftcap) {
  Example example = SharedKeys();
  example.options.scale = 0.5f;
  example.options.softcap = 2.0f;
  example.reply.intermediates->scores = Literal("[[[3, -1]], [[6, -2]]]");
  example.reply.intermediates->capped_scores = Literal("[[[1.8102965, -0.92423433]], [[1.9901096, -1.5231883]]]");
  example.reply.intermediates->masked_scores = *example.reply.intermediates->capped_scores;
  EXPECT_THAT(example.Explain(),
              AllOf(HasSubstr("3. Scores: dot product of query row 0 with each key, times scale = 0.5\n"),
                    HasSubstr("q·k_0 = 2.0·3.0 = 6.0; 6.0 · 0.5 = 3.0\n"),
                    HasSubstr("   scores = [3.0, -1.0]\n"
                              "   Soft cap: scores limited to ±2.0\n"
                              "      key 0: 2.0 · tanh(3.0 / 2.0) = 1.8102965\n"
                              "      key 1: 2.0 · tanh(-1.0 / 2.0) = -0.92423433\n"
                              "   capped_scores = [1.8102965, -0.92423433]\n\n"),
                    HasSubstr("key 0: exp(1.8102965 - 1.8102965) = 1.0"), HasSubstr(", capped_scores ")));
  const Differences differences = CompareByHand(*example.Call());
  EXPECT_EQ(differences.scores, 0);
  EXPECT_LT(differences.capped_scores, 1e-7);
  example.options.scale = -2.0f;
  EXPECT_THAT(example.Explain(), HasSubstr("q·k_0 = 2.0·3.0 = 6.0; 6.0 · (-2.0) = -12.0\n"));
}

TEST(ExplainRowTest, RefusesAReplyWithoutCappedScores) {
  Example example = SharedKeys();
  example.options.softcap = 2.0f;
  EXPECT_THAT(example.Call(), StatusIs(StatusCode::kInternal, "reply.capped_scores: missing"));
}

TEST(ExplainRowTest, AddsTheBias) {
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
              StatusIs(StatusCode::kInvalidArgument, "bias: expected a shape that broadcasts to [2, 1, 2], got [3]"));
}

TEST(ExplainRowTest, NamesEachPartOfTheMask) {
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
                                           "      causal (bottom-right, offset 1): keys up to row 0 + offset = 1\n"
                                           "      window (offset -3): keys from -4 to the last\n"
                                           "      kv_lengths: the first 2 of 2 keys\n"
                                           "      segment ids: this query is in segment 7, which has 1 key\n"
                                           "   masked_scores = [6.0, hidden]\n"));
  example.options.mask.causal = Corner::kTopLeft;
  example.options.mask.window = SlidingWindow{.diagonal = Corner::kTopLeft, .right = 4};
  EXPECT_THAT(example.Explain(), AllOf(HasSubstr("causal (top-left, offset 0): keys up to row 0 + offset = 0\n"),
                                       HasSubstr("window (top-left, offset 0): keys from the first to 4\n")));
}

TEST(ExplainRowTest, RefusesMasksOfOtherSizes) {
  const std::vector<int64_t> two = {1, 1};
  Example example = SharedKeys();
  example.options.mask.kv_lengths = two;
  EXPECT_THAT(example.Call(), StatusIs(StatusCode::kInvalidArgument, "mask.kv_lengths: expected 1 length, got 2"));
  example = SharedKeys();
  example.options.mask.q_lengths = two;
  EXPECT_THAT(example.Call(), StatusIs(StatusCode::kInvalidArgument, "mask.q_lengths: expected 1 length, got 2"));
  example = SharedKeys();
  example.q_segment_ids = Literal("[1]", DataType::kInt64);
  EXPECT_THAT(example.Call(), StatusIs(StatusCode::kInvalidArgument, "mask.kv_segment_ids: expected 2 ids, got 1"));
}

TEST(ExplainRowTest, EmptyRowsAreUniformOrZero) {
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

TEST(ExplainRowTest, DoesNotExplainRowsAfterQLengths) {
  const std::vector<int64_t> q_lengths = {1};
  Example example = TwoHeadsWithMask();
  example.mask.reset();
  example.options.mask.q_lengths = q_lengths;
  example.reply.intermediates->query = Literal("[[[1], [10]], [[0], [0]]]");
  example.reply.intermediates->scores = Literal("[[[1, 2], [0, 0]], [[-10, -20], [0, 0]]]");
  example.reply.intermediates->masked_scores = example.reply.intermediates->scores;
  EXPECT_THAT(
      example.Explain({.spot = {.row = 1}}),
      AllOf(HasSubstr("3. Row 1 is after the end of its sequence (q_lengths: 1): it is not computed, and all its "
                      "numbers are 0\n"),
            Not(HasSubstr("5. Softmax"))));
  EXPECT_EQ(CompareByHand(*example.Call()).scores, 0);
}

TEST(ExplainRowTest, RoundsOperandsToBFloat16) {
  Example example = QueriesFromDst();
  example.options.compute_dtype = DataType::kBFloat16;
  example.reply.intermediates->context =
      Literal("[[[[3.9917908, 3.9917908, 3.9917908, 3.9917908]], [[3.9917908, 3.9917908, 3.9917908, 3.9917908]]]]");
  EXPECT_THAT(
      example.Explain(),
      AllOf(HasSubstr("compute_dtype bfloat16: the operands of every product are rounded to bfloat16, "),
            HasSubstr(
                "3. Scores: dot product of query row 0, times scale = 0.5, with each key; both rounded to bfloat16\n"
                "      q   = [1.5, 1.5, 1.5, 1.5]\n"),
            HasSubstr("q·k_0 = 1.5·4.0 + 1.5·4.0 + 1.5·4.0 + 1.5·4.0 = 24.0\n"),
            HasSubstr("6. Context: the sum of the values, each multiplied by its weight; both rounded to bfloat16\n"
                      "        0.99609375 · [4.0, 4.0, 4.0, 4.0]\n"
                      "      + 0.0024719238 · [3.0, 3.0, 3.0, 3.0]\n"
                      "      = [3.9917908, 3.9917908, 3.9917908, 3.9917908]\n"),
            HasSubstr("out_kernel [1, 4, 4] (both rounded to bfloat16) + out_bias\n")));
  const Differences differences = CompareByHand(*example.Call());
  EXPECT_EQ(differences.scores, 0);
  EXPECT_LT(differences.context, 1e-6);
}

TEST(ExplainRowTest, RoundsTheScaledQuery) {
  // 1.00390625 = 1 + 2^-8 is no bfloat16; three times it, 3.01171875, rounds to 3.015625.
  Example example = SharedKeys();
  example.inputs_q = Literal("[[[1.00390625], [1]]]");
  example.options.scale = 3.0f;
  example.options.compute_dtype = DataType::kBFloat16;
  const RowByHand row = CalculateByHand(*example.Call(), {});
  EXPECT_THAT(row.query, ElementsAre(3.015625));
  EXPECT_THAT(row.scores, ElementsAre(3 * 3.015625, -3.015625));
}

TEST(ExplainRowTest, DoesNotRoundTheMeanOfARowWithoutKeys) {
  // 1.00390625 is no bfloat16.
  Example example = SharedKeys();
  example.inputs_v = Literal("[[[1.00390625, 1]], [[1.00390625, 2]]]");
  example.options.compute_dtype = DataType::kBFloat16;
  example.reply.intermediates->masked_scores = Literal("[[[-inf, -inf]], [[-inf, -inf]]]");
  example.reply.attn_weights = Literal("[[[0.5, 0.5]], [[0.5, 0.5]]]");
  EXPECT_THAT(CalculateByHand(*example.Call(), {}).context, ElementsAre(1.00390625, 1.5));
  EXPECT_THAT(example.Explain(), HasSubstr("6. Context: the sum of the values, each multiplied by its weight\n"
                                           "        0.5 · [1.0039062, 1.0]\n"));
}

TEST(ExplainRowTest, ShowsTheLayerNormOfQueryAndKey) {
  Example example = QueriesFromDst();
  example.weight_set->normalize_qk = true;
  EXPECT_THAT(example.Explain(),
              AllOf(HasSubstr("1 head, head_dim 4, LayerNorm of query and key, out_features 4\n"),
                    HasSubstr("query = LayerNorm(inputs_q [1, 2, 3] · query_kernel [3, 1, 4] + query_bias [1, 4]) -> "),
                    HasSubstr("key = LayerNorm(inputs_k [1, 2, 3] · key_kernel [3, 1, 4]) -> "),
                    HasSubstr("value = inputs_k [1, 2, 3] · value_kernel [3, 1, 4] -> ")));
}

TEST(ExplainRowTest, HeadsOfAWeightSetShareKeysAndValues) {
  // Query head h of four uses key and value head h / 2 of two. The values have three numbers.
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
              AllOf(HasSubstr("4 heads (2 for keys and values), head_dim 1, value_head_dim 3, out_features 1\n"),
                    HasSubstr("; shown for head 2 of 4, its key and value head 1 of 2, counted from 0\n"),
                    HasSubstr("key_kernel [1, 2, 1] -> [1, 2, 1]\n      key_0 = [6.0]\n"),
                    HasSubstr("value_kernel [1, 2, 3] -> [1, 2, 3]\n      value_0 = [4.0, 5.0, 6.0]\n"),
                    HasSubstr("q·k_0 = 3.0·6.0 = 18.0; 18.0 / √1 = 18.0\n"),
                    HasSubstr("context [4, 3] (all 4 heads together) · out_kernel [4, 3, 1] + out_bias\n"),
                    HasSubstr("scores 0, attn_weights 0, context 0\n")));
}

}  // namespace
}  // namespace attention::cli
