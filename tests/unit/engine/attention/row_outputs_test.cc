#include "server/engine/attention/row_outputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace attention::server {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

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
    call_.batch = 1;
    call_.q_length = 2;
    call_.kv_length = 4;
    call_.heads = {2, 2, 1, 1};
    call_.options.top_k = 2;
  }

  AttentionCall call_;
  Buffer scratch_;
  std::vector<float> weights_ = std::vector<float>(16), mean_ = std::vector<float>(8),
                     top_weights_ = std::vector<float>(8);
  std::vector<int32_t> top_keys_ = std::vector<int32_t>(8);
};

TEST_F(RowOutputsTest, WantsNoWeightsUnlessAskedFor) {
  EXPECT_FALSE(WantsWeights(call_));
  call_.also.mean_attn_weights = mean_.data();
  EXPECT_TRUE(WantsWeights(call_));
}

TEST_F(RowOutputsTest, PutsCorrectedWeightsAtTheirKeys) {
  call_.also.attn_weights = weights_.data();
  const float weights[] = {0.25f, 0.5f};
  RowOutputs(call_, 0, 1).PutWeights(1, {2, 4}, weights, 2.0, scratch_);
  EXPECT_THAT(weights_, ElementsAre(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.5f, 1));
}

TEST_F(RowOutputsTest, AveragesOverTheHeads) {
  call_.also.mean_attn_weights = mean_.data();
  const float first[] = {0.5f, 0.5f};
  RowOutputs(call_, 0, 0).PutWeights(1, {0, 2}, first, 1.0, scratch_);
  RowOutputs(call_, 0, 1).PutEmptyRow(1, 0.25f, scratch_);
  EXPECT_THAT(mean_, ElementsAre(0, 0, 0, 0, 0.375f, 0.375f, 0.125f, 0.125f));
}

TEST_F(RowOutputsTest, KeepsTheLargestWeightsAndMarksKeysWithoutWeight) {
  call_.also.top_keys = top_keys_.data();
  call_.also.top_weights = top_weights_.data();
  const float weights[] = {0.25f, 0.75f};
  RowOutputs(call_, 0, 0).PutWeights(0, {1, 3}, weights, 1.0, scratch_);
  const float one[] = {1.0f};
  RowOutputs(call_, 0, 1).PutWeights(1, {3, 4}, one, 1.0, scratch_);
  EXPECT_THAT(top_keys_, ElementsAre(2, 1, 0, 0, 0, 0, 3, -1));
  EXPECT_THAT(top_weights_, ElementsAre(0.75f, 0.25f, 0, 0, 0, 0, 1, 0));
}

TEST_F(RowOutputsTest, PutsScoresAndLogSumExpInTheirRows) {
  std::vector<float> scores(16), log_sum_exp(4);
  call_.also.log_sum_exp = log_sum_exp.data();
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
