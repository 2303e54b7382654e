#include "server/engine/attention/row_outputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace attention::server {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::IsNan;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

TEST(CapScoresTest, LimitsScoresToTheSoftCapAndKeepsNaN) {
  Onednn onednn;
  Buffer scratch;
  std::vector<float> scores = {0, 1, -1, kNaN, 100, -kInf, kInf, 2.5f};
  CapScores(onednn, 2.0f, {scores.data(), 2, 2, 3, 4}, scratch);
  EXPECT_EQ(scores[0], 0);
  EXPECT_NEAR(scores[1], 2 * std::tanh(0.5), 1e-6);
  EXPECT_NEAR(scores[2], -2 * std::tanh(0.5), 1e-6);
  EXPECT_THAT(scores[3], IsNan());
  EXPECT_THAT(std::vector<float>(scores.begin() + 4, scores.begin() + 7), ElementsAre(2, -2, 2));
  EXPECT_NEAR(scores[7], 2 * std::tanh(1.25), 1e-6);
}

TEST(RowCorrectionsTest, IsTheInverseOfTheSumOfTheWeights) {
  std::vector<float> weights(2 * 12, 0.0f);
  for (int key = 0; key < 11; ++key) weights[key] = 0.125f;  // sums to 1.375
  weights[12 + 10] = 1.0f;
  weights[11] = weights[23] = 100.0f;  // after the last key
  double corrections[2];
  RowCorrections({weights.data(), 2, 2, 11, 12}, corrections);
  EXPECT_EQ(corrections[0], 1 / 1.375);
  EXPECT_EQ(corrections[1], 1.0);
}

TEST(RowCorrectionsTest, SetsTheCorrectionOfARowWithNaNToNaN) {
  std::vector<float> weights = {0, kNaN, 0, 9, 0.5f, 0.5f, 0, kNaN};
  double corrections[2];
  RowCorrections({weights.data(), 2, 2, 3, 4}, corrections);
  EXPECT_THAT(corrections[0], IsNan());
  EXPECT_EQ(corrections[1], 1.0);
}

TEST(LargestIndicesTest, OrdersByNumberThenByIndex) {
  const float row[] = {0.1f, 0.4f, 0.1f, 0.4f};
  EXPECT_THAT(LargestIndices(row, 4, 3), ElementsAre(1, 3, 0));
  EXPECT_THAT(LargestIndices(row, 4, 4), ElementsAre(1, 3, 0, 2));
  EXPECT_THAT(LargestIndices(row, 4, 0), ElementsAre());
}

TEST(LargestIndicesTest, PutsNaNFirst) {
  const float row[] = {0.1f, kNaN, 0.5f, kNaN};
  EXPECT_THAT(LargestIndices(row, 4, 3), ElementsAre(1, 3, 2));
}

// Two heads, two queries and four keys of one sequence.
class RowOutputsTest : public ::testing::Test {
 protected:
  RowOutputsTest() {
    call_.shape.batch = 1;
    call_.shape.q_length = 2;
    call_.shape.kv_length = 4;
    call_.shape.heads = {2, 2, 1, 1};
    call_.options.top_k = 2;
  }

  AttentionCall call_;
  Buffer scratch_;
  std::vector<float> weights_ = std::vector<float>(16), mean_ = std::vector<float>(8),
                     top_weights_ = std::vector<float>(8);
  std::vector<int32_t> top_keys_ = std::vector<int32_t>(8);
};

TEST_F(RowOutputsTest, PutsCorrectedWeightsAtTheirKeys) {
  call_.extra_outputs.attn_weights = weights_.data();
  const float weights[] = {0.25f, 0.5f};
  RowOutputs(call_, 0, 1).PutWeights(1, {2, 4}, weights, 2.0, scratch_);
  EXPECT_THAT(weights_, ElementsAre(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.5f, 1));
}

TEST_F(RowOutputsTest, AveragesOverTheHeads) {
  call_.extra_outputs.mean_attn_weights = mean_.data();
  const float first[] = {0.5f, 0.5f};
  RowOutputs(call_, 0, 0).PutWeights(1, {0, 2}, first, 1.0, scratch_);
  RowOutputs(call_, 0, 1).PutEmptyRow(1, 0.25f, scratch_);
  EXPECT_THAT(mean_, ElementsAre(0, 0, 0, 0, 0.375f, 0.375f, 0.125f, 0.125f));
}

TEST_F(RowOutputsTest, WritesTheLargestWeightsAndMarksKeysWithoutWeight) {
  call_.extra_outputs.top_keys = top_keys_.data();
  call_.extra_outputs.top_weights = top_weights_.data();
  const float weights[] = {0.25f, 0.75f};
  RowOutputs(call_, 0, 0).PutWeights(0, {1, 3}, weights, 1.0, scratch_);
  const float one[] = {1.0f};
  RowOutputs(call_, 0, 1).PutWeights(1, {3, 4}, one, 1.0, scratch_);
  EXPECT_THAT(top_keys_, ElementsAre(2, 1, 0, 0, 0, 0, 3, -1));
  EXPECT_THAT(top_weights_, ElementsAre(0.75f, 0.25f, 0, 0, 0, 0, 1, 0));
}

TEST_F(RowOutputsTest, PutsScoresAndLogSumExpInTheirRows) {
  std::vector<float> scores(16), log_sum_exp(4);
  call_.extra_outputs.log_sum_exp = log_sum_exp.data();
  std::vector<float> tile = {1, 2, 9, 3, 4, 9};
  const RowOutputs outputs(call_, 0, 1);
  outputs.PutScores({tile.data(), 2, 2, 2, 3}, 0, 1, scores.data());
  outputs.PutScores({tile.data(), 2, 2, 2, 3}, 0, 1, nullptr);
  outputs.PutLogSumExp(1, 2.5);
  EXPECT_THAT(scores, ElementsAre(0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 3, 4, 0));
  EXPECT_THAT(log_sum_exp, ElementsAre(0, 0, 0, FloatEq(2.5f)));
}

}  // namespace
}  // namespace attention::server
