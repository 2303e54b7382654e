#include "tests/testing/reference/reference_attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/testing/files/weights.h"

namespace attention::test {
namespace {

using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::ElementsAre;

const std::vector<double> kSrc = {2, 1, 1, 1, 1, 1};
const std::vector<double> kDst = {1, 1, 1, 1, 1, 1};

TEST(ReferenceAttentionTest, ComputesTheExampleOfReadme) {
  const ReferenceOutputs out = ReferenceAttention(
      OnesLayer(), {.batch = 1, .q_length = 2, .kv_length = 2, .inputs_q = kDst, .inputs_k = kSrc, .inputs_v = kSrc});
  EXPECT_THAT(out.query, Each(3.0));
  EXPECT_THAT(out.key, ElementsAre(4, 4, 4, 4, 3, 3, 3, 3));
  EXPECT_THAT(out.value, ElementsAre(4, 4, 4, 4, 3, 3, 3, 3));
  EXPECT_THAT(out.scores, ElementsAre(24, 18, 24, 18));
  const double weight = 1 / (1 + std::exp(-6.0));
  EXPECT_THAT(out.attn_weights, ElementsAre(DoubleNear(weight, 1e-15), DoubleNear(1 - weight, 1e-15),
                                            DoubleNear(weight, 1e-15), DoubleNear(1 - weight, 1e-15)));
  EXPECT_EQ(out.output.size(), 8u);
  EXPECT_THAT(out.context, Each(DoubleNear(3.9975273768, 1e-9)));
  EXPECT_THAT(out.output, Each(DoubleNear(3.9975273768, 1e-9)));
}

TEST(ReferenceAttentionTest, ComputesTheExampleOfReadmeWithExchangedInputs) {
  const ReferenceOutputs out = ReferenceAttention(
      OnesLayer(), {.batch = 1, .q_length = 2, .kv_length = 2, .inputs_q = kSrc, .inputs_k = kDst, .inputs_v = kDst});
  EXPECT_EQ(out.output.size(), 8u);
  EXPECT_THAT(out.output, Each(3.0));
}

TEST(ReferenceAttentionTest, GivesARowWithoutAVisibleKeyTheMeanOfAllValues) {
  const std::vector<double> kv = {1, 0, 0, 1, 4, 4, -2, 6};
  const ReferenceOutputs out = ReferenceAttention(IdentityLayer(2), {.batch = 1,
                                                                     .q_length = 3,
                                                                     .kv_length = 4,
                                                                     .inputs_q = {1, 2, 3, -1, 0, 1},
                                                                     .inputs_k = kv,
                                                                     .inputs_v = kv,
                                                                     .mask = {1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0}});
  const double weight = 1 / (1 + std::exp(1 / std::sqrt(2.0)));
  EXPECT_THAT(out.output, ElementsAre(DoubleNear(weight, 1e-15), DoubleNear(1 - weight, 1e-15), 0.75, 2.75, 4, 4));
}

TEST(ReferenceAttentionTest, ReplacesHiddenScores) {
  const double inf = std::numeric_limits<double>::infinity();
  const ReferenceOutputs out = ReferenceAttention(IdentityLayer(2), {.batch = 1,
                                                                     .q_length = 1,
                                                                     .kv_length = 2,
                                                                     .inputs_q = {1, 1},
                                                                     .inputs_k = {inf, 0, 1, 1},
                                                                     .inputs_v = {5, 6, 7, 8},
                                                                     .mask = {0, 1}});
  EXPECT_THAT(out.attn_weights, ElementsAre(0, 1));
  EXPECT_THAT(out.output, ElementsAre(7, 8));
}

TEST(ReferenceAttentionTest, GivesTheOutputBiasWithoutKeys) {
  server::LayerParameters p = IdentityLayer(2);
  p.value_bias = {7, 9};
  p.out_bias = {0.5, -1};
  const ReferenceOutputs out =
      ReferenceAttention(p, {.batch = 1, .q_length = 2, .kv_length = 0, .inputs_q = {1, 2, 3, 4}});
  EXPECT_THAT(out.output, ElementsAre(0.5, -1, 0.5, -1));
}

// Head 0 attends to key 0 and head 1 to key 1. The widths of q, k, v and the output differ.
TEST(ReferenceAttentionTest, KeepsHeadsSequencesAndWidthsApart) {
  server::LayerParameters p;
  p.shape = {.in_features = 1,
             .in_k_features = 2,
             .in_v_features = 3,
             .heads = {.num_heads = 2, .num_kv_heads = 2, .head_dim = 1, .value_head_dim = 1},
             .out_features = 2};
  p.query_kernel = {100, 100};          // [1, 2, 1]
  p.key_kernel = {1, 0, 0, 1};          // [2, 2, 1]
  p.value_kernel = {1, 0, 0, 1, 0, 0};  // [3, 2, 1]
  p.out_kernel = {1, 0, 0, 10};         // [2, 1, 2]
  const ReferenceOutputs out = ReferenceAttention(p, {.batch = 2,
                                                      .q_length = 1,
                                                      .kv_length = 2,
                                                      .inputs_q = {1, 1},
                                                      .inputs_k = {9, 0, 0, 9, 0, 9, 9, 0},
                                                      .inputs_v = {1, 2, 0, 3, 4, 0, 5, 6, 0, 7, 8, 0}});
  EXPECT_THAT(out.output, ElementsAre(1, 40, 7, 60));
}

// A query 1, and keys 1 and 0 with values 2 and 4. The first weight is 1/(1 + e^-d) for a difference d of the scores.
ReferenceInputs TwoKeys() {
  return {.batch = 1, .q_length = 1, .kv_length = 2, .inputs_q = {1}, .inputs_k = {1, 0}, .inputs_v = {2, 4}};
}
constexpr server::HeadShape kOneHead = {1, 1, 1, 1};

double Weight(double difference) { return 1 / (1 + std::exp(-difference)); }

TEST(ReferenceAttentionTest, ScalesThenCapsThenAddsTheBias) {
  ReferenceInputs inputs = TwoKeys();
  inputs.scale = 3;
  inputs.softcap = 2;
  inputs.bias = {0.5, 1.5};
  const ReferenceOutputs out = ReferenceAttention(kOneHead, inputs);
  EXPECT_THAT(out.scores, ElementsAre(3, 0));
  const double capped = 2 * std::tanh(1.5);
  EXPECT_THAT(out.capped_scores, ElementsAre(DoubleNear(capped, 1e-15), 0));
  EXPECT_THAT(out.masked_scores, ElementsAre(DoubleNear(capped + 0.5, 1e-15), 1.5));
  EXPECT_THAT(out.attn_weights[0], DoubleNear(Weight(capped - 1), 1e-15));
  EXPECT_THAT(out.log_sum_exp, ElementsAre(DoubleNear(std::log(std::exp(capped + 0.5) + std::exp(1.5)), 1e-14)));
  EXPECT_EQ(out.output, out.context);
  EXPECT_THAT(out.output, ElementsAre(DoubleNear(4 - 2 * Weight(capped - 1), 1e-14)));
}

TEST(ReferenceAttentionTest, HidesKeysByTheMaskAndByABiasOfMinusInfinity) {
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  ReferenceInputs inputs = TwoKeys();
  inputs.inputs_k[1] = inputs.inputs_v[1] = nan;
  inputs.bias = {0, -inf};
  ReferenceOutputs out = ReferenceAttention(kOneHead, inputs);
  EXPECT_THAT(out.masked_scores, ElementsAre(1, -inf));
  EXPECT_THAT(out.output, ElementsAre(2));
  inputs.bias = {};
  inputs.mask = {1, 0};
  out = ReferenceAttention(kOneHead, inputs);
  EXPECT_THAT(out.masked_scores, ElementsAre(1, -inf));
  EXPECT_THAT(out.output, ElementsAre(2));
  EXPECT_EQ(out.empty_rows, 0);
}

TEST(ReferenceAttentionTest, AppliesTheRuleForEmptyRows) {
  const double inf = std::numeric_limits<double>::infinity();
  ReferenceInputs inputs = TwoKeys();
  inputs.mask = {0, 1};
  inputs.bias = {0, -inf};
  ReferenceOutputs out = ReferenceAttention(kOneHead, inputs);
  EXPECT_THAT(out.attn_weights, ElementsAre(0.5, 0.5));
  EXPECT_THAT(out.output, ElementsAre(3));
  EXPECT_THAT(out.log_sum_exp, ElementsAre(-inf));
  EXPECT_EQ(out.empty_rows, 1);
  inputs.empty_rows = server::EmptyRowRule::kZero;
  out = ReferenceAttention(kOneHead, inputs);
  EXPECT_THAT(out.attn_weights, ElementsAre(0, 0));
  EXPECT_THAT(out.output, ElementsAre(0));
  EXPECT_EQ(out.empty_rows, 1);
}

TEST(ReferenceAttentionTest, LeavesZerosAfterTheQueriesOfASequence) {
  server::LayerParameters p = IdentityLayer(2);
  p.query_bias = {1, 1};
  p.out_bias = {0.5, -1};
  const ReferenceOutputs out = ReferenceAttention(p, {.batch = 2,
                                                      .q_length = 2,
                                                      .kv_length = 1,
                                                      .inputs_q = {1, 2, 3, 4, 5, 6, 7, 8},
                                                      .inputs_k = {1, 1, 1, 1},
                                                      .inputs_v = {1, 2, 3, 4},
                                                      .q_lengths = {1, 0}});
  EXPECT_THAT(out.query, ElementsAre(2, 3, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(out.attn_weights, ElementsAre(1, 0, 0, 0));
  EXPECT_THAT(out.masked_scores, ElementsAre(DoubleNear(5 / std::sqrt(2.0), 1e-15), 0, 0, 0));
  EXPECT_THAT(out.output, ElementsAre(1.5, 1, 0, 0, 0, 0, 0, 0));
  EXPECT_EQ(out.empty_rows, 0);
}

// Query heads 0 and 1 use key and value head 0, and heads 2 and 3 use head 1. Values are wider than keys.
TEST(ReferenceAttentionTest, GroupsHeads) {
  const ReferenceOutputs out = ReferenceAttention(server::HeadShape{4, 2, 1, 2}, {.batch = 1,
                                                                                  .q_length = 1,
                                                                                  .kv_length = 1,
                                                                                  .inputs_q = {1, 2, 3, 4},
                                                                                  .inputs_k = {10, 20},
                                                                                  .inputs_v = {5, 6, 7, 8}});
  EXPECT_THAT(out.scores, ElementsAre(10, 20, 60, 80));
  EXPECT_THAT(out.output, ElementsAre(5, 6, 5, 6, 7, 8, 7, 8));
  EXPECT_THAT(out.mean_attn_weights, ElementsAre(1));
}

// (1, 3) has mean 2 and variance 1. (5, 5) has variance 0, and only epsilon keeps the result finite.
TEST(ReferenceAttentionTest, NormalizesQueriesAndKeys) {
  server::LayerParameters p = IdentityLayer(2);
  p.query_ln_scale = {2, 10};
  p.key_ln_scale = {1, 1};
  const ReferenceOutputs out = ReferenceAttention(p, {.batch = 1,
                                                      .q_length = 1,
                                                      .kv_length = 2,
                                                      .inputs_q = {1, 3},
                                                      .inputs_k = {5, 5, 3, 1},
                                                      .inputs_v = {1, 2, 3, 4}});
  const double root = std::sqrt(1 + 1e-6);
  EXPECT_THAT(out.query, ElementsAre(DoubleNear(-2 / root, 1e-15), DoubleNear(10 / root, 1e-14)));
  EXPECT_THAT(out.key, ElementsAre(0, 0, DoubleNear(1 / root, 1e-15), DoubleNear(-1 / root, 1e-15)));
  EXPECT_THAT(out.value, ElementsAre(1, 2, 3, 4));
}

// The weights 0.9975274 and 0.0024726 are rounded to 255/256 and 0.0024719238.
TEST(ReferenceAttentionTest, RoundsOperandsToBFloat16) {
  ReferenceInputs inputs = {
      .batch = 1, .q_length = 2, .kv_length = 2, .inputs_q = kDst, .inputs_k = kSrc, .inputs_v = kSrc};
  inputs.bfloat16 = true;
  const ReferenceOutputs out = ReferenceAttention(OnesLayer(), inputs);
  EXPECT_THAT(out.attn_weights[0], DoubleNear(0.99752737684, 1e-10));
  EXPECT_THAT(out.context, Each(DoubleNear(0.99609375 * 4 + 0.00247192382812 * 3, 1e-12)));
  EXPECT_THAT(out.output, Each(3.984375));
}

}  // namespace
}  // namespace attention::test
