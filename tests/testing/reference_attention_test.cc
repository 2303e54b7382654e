#include "tests/testing/reference_attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace attention::test {
namespace {

using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::ElementsAre;

// Kernels of ones [3, 1, 4], identity out: each of the four outputs is the sum of the attended token's features.
server::LayerParameters Ones() {
  server::LayerParameters p;
  p.shape = {
      .in_features = 3, .in_k_features = 3, .in_v_features = 3, .num_heads = 1, .head_dim = 4, .out_features = 4};
  p.query_kernel = p.key_kernel = p.value_kernel = std::vector<float>(12, 1.0f);
  p.out_kernel = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1};
  return p;
}

// Identity kernels of two features.
server::LayerParameters Identity() {
  server::LayerParameters p;
  p.shape = {
      .in_features = 2, .in_k_features = 2, .in_v_features = 2, .num_heads = 1, .head_dim = 2, .out_features = 2};
  p.query_kernel = p.key_kernel = p.value_kernel = p.out_kernel = {1, 0, 0, 1};
  return p;
}

const std::vector<double> kSrc = {2, 1, 1, 1, 1, 1};
const std::vector<double> kDst = {1, 1, 1, 1, 1, 1};

TEST(ReferenceAttentionTest, AnswersThePublicQuestion) {
  const ReferenceOutputs out = ReferenceAttention(
      Ones(), {.batch = 1, .q_length = 2, .kv_length = 2, .inputs_q = kDst, .inputs_k = kSrc, .inputs_v = kSrc});
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

TEST(ReferenceAttentionTest, AnswersThePublicQuestionWithTheInputsExchanged) {
  const ReferenceOutputs out = ReferenceAttention(
      Ones(), {.batch = 1, .q_length = 2, .kv_length = 2, .inputs_q = kSrc, .inputs_k = kDst, .inputs_v = kDst});
  EXPECT_EQ(out.output.size(), 8u);
  EXPECT_THAT(out.output, Each(3.0));
}

TEST(ReferenceAttentionTest, GivesARowWithoutAVisibleKeyTheMeanOfAllValues) {
  const std::vector<double> kv = {1, 0, 0, 1, 4, 4, -2, 6};
  const ReferenceOutputs out = ReferenceAttention(Identity(), {.batch = 1,
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
  const ReferenceOutputs out = ReferenceAttention(Identity(), {.batch = 1,
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
  server::LayerParameters p = Identity();
  p.value_bias = {7, 9};
  p.out_bias = {0.5, -1};
  const ReferenceOutputs out =
      ReferenceAttention(p, {.batch = 1, .q_length = 2, .kv_length = 0, .inputs_q = {1, 2, 3, 4}});
  EXPECT_THAT(out.output, ElementsAre(0.5, -1, 0.5, -1));
}

// Head 0 attends to key 0, head 1 to key 1; widths of q, k, v and the output all differ.
TEST(ReferenceAttentionTest, KeepsHeadsSequencesAndWidthsApart) {
  server::LayerParameters p;
  p.shape = {
      .in_features = 1, .in_k_features = 2, .in_v_features = 3, .num_heads = 2, .head_dim = 1, .out_features = 2};
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

TEST(BroadcastMaskTest, SpreadsMissingAndUnitAxes) {
  EXPECT_THAT(BroadcastMask({1, 0}, {2}, {1, 1, 2, 2}), ElementsAre(1, 0, 1, 0));
  EXPECT_THAT(BroadcastMask({1, 0}, {2, 1}, {1, 1, 2, 2}), ElementsAre(1, 1, 0, 0));
  EXPECT_THAT(BroadcastMask({1, 0}, {2, 1, 1, 1}, {2, 1, 1, 3}), ElementsAre(1, 1, 1, 0, 0, 0));
  EXPECT_THAT(BroadcastMask({1}, {}, {2, 1}), ElementsAre(1, 1));
}

}  // namespace
}  // namespace attention::test
