#include "server/engine/attention/head_mask.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace attention::server {
namespace {

using ::testing::ElementsAre;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Two heads, three queries and four keys of one sequence.
class HeadMaskTest : public ::testing::Test {
 protected:
  HeadMaskTest() {
    call_.shape.batch = 1;
    call_.shape.q_length = 3;
    call_.shape.kv_length = 4;
    call_.shape.heads = {2, 2, 1, 1};
  }

  // The same for all heads.
  void UseDense(const std::vector<uint8_t>& bytes, int64_t q_stride, int64_t kv_stride) {
    dense_ = bytes;
    call_.mask.dense = {DType::kBool, reinterpret_cast<const std::byte*>(dense_.data()), {0}, 0, q_stride, kv_stride};
  }

  void UseBias(const std::vector<float>& bias, int64_t q_stride, int64_t kv_stride) {
    bias_ = bias;
    call_.bias = {DType::kFloat32, reinterpret_cast<const std::byte*>(bias_.data()), {0}, 0, q_stride, kv_stride};
  }

  // Applies the mask to scores 1, 2, … at `keys` and in one column after them.
  std::vector<float> Applied(int64_t query, KeyRange keys = {0, 4}, int64_t head = 0) {
    std::vector<float> scores(keys.size() + 1);
    for (size_t i = 0; i < scores.size(); ++i) scores[i] = static_cast<float>(i + 1);
    sees_key_ = HeadMask(call_, 0, head).Apply(query, keys, keys.size() + 1, scores.data(), scratch_);
    return scores;
  }

  KeyRange TileRange(int64_t first = 0, int64_t rows = 3) { return HeadMask(call_, 0, 0).TileRange(first, rows); }

  AttentionCall call_;
  std::vector<uint8_t> dense_;
  std::vector<float> bias_;
  MaskScratch scratch_;
  bool sees_key_ = false;
};

TEST_F(HeadMaskTest, HidesTheColumnsAfterTheLastKey) {
  EXPECT_THAT(Applied(0), ElementsAre(1, 2, 3, 4, -kInf));
  EXPECT_TRUE(sees_key_);
}

TEST_F(HeadMaskTest, HidesKeysByADenseMask) {
  UseDense({1, 0, 1, 1, 0, 0, 0, 0, 0, 1, 0, 0}, 4, 1);
  EXPECT_THAT(Applied(0), ElementsAre(1, -kInf, 3, 4, -kInf));
  EXPECT_THAT(Applied(1), ElementsAre(-kInf, -kInf, -kInf, -kInf, -kInf));
  EXPECT_FALSE(sees_key_);
  EXPECT_THAT(Applied(2, {1, 3}), ElementsAre(1, -kInf, -kInf));
  EXPECT_TRUE(sees_key_);
}

TEST_F(HeadMaskTest, ReadsADenseMaskThatIsBroadcastOverQueriesOrKeys) {
  UseDense({0, 1, 1, 1}, 0, 1);
  EXPECT_THAT(Applied(2), ElementsAre(-kInf, 2, 3, 4, -kInf));
  UseDense({1, 0, 1}, 1, 0);
  EXPECT_THAT(Applied(0), ElementsAre(1, 2, 3, 4, -kInf));
  EXPECT_THAT(Applied(1), ElementsAre(-kInf, -kInf, -kInf, -kInf, -kInf));
}

TEST_F(HeadMaskTest, ReadsTheRowsOfItsHead) {
  UseDense({1, 1, 1, 0, 1, 1, 0, 1}, 0, 1);
  call_.mask.dense.head_stride = 4;
  EXPECT_THAT(Applied(0, {0, 4}, 1), ElementsAre(1, 2, -kInf, 4, -kInf));
}

TEST_F(HeadMaskTest, HidesKeysByLimits) {
  call_.mask.limits = {{.q_length = 3, .kv_length = 3, .first_offset = 0, .last_offset = 1}};
  EXPECT_THAT(Applied(0), ElementsAre(1, 2, -kInf, -kInf, -kInf));
  EXPECT_THAT(Applied(2), ElementsAre(-kInf, -kInf, 3, -kInf, -kInf));
  EXPECT_THAT(Applied(2, {2, 4}), ElementsAre(1, -kInf, -kInf));
}

TEST_F(HeadMaskTest, HidesKeysOfOtherSegments) {
  call_.mask.segments = {.q = {5, 6, 7}, .kv = {5, 5, 6, 5}};
  EXPECT_THAT(Applied(0), ElementsAre(1, 2, -kInf, 4, -kInf));
  EXPECT_THAT(Applied(1), ElementsAre(-kInf, -kInf, 3, -kInf, -kInf));
  EXPECT_THAT(Applied(2), ElementsAre(-kInf, -kInf, -kInf, -kInf, -kInf));
  EXPECT_FALSE(sees_key_);
}

TEST_F(HeadMaskTest, CombinesAllParts) {
  UseDense({1, 1, 1, 0}, 0, 1);
  call_.mask.segments = {.q = {5, 5, 5}, .kv = {5, 5, 6, 5}};
  call_.mask.limits = {{.q_length = 3, .kv_length = 4, .first_offset = 0}};
  UseBias({10, 20, 30, 40}, 0, 1);
  EXPECT_THAT(Applied(0), ElementsAre(11, 22, -kInf, -kInf, -kInf));
  EXPECT_THAT(Applied(1), ElementsAre(-kInf, 22, -kInf, -kInf, -kInf));
  EXPECT_THAT(Applied(2), ElementsAre(-kInf, -kInf, -kInf, -kInf, -kInf));
  EXPECT_FALSE(sees_key_);
}

TEST_F(HeadMaskTest, AddsTheBiasAndHidesKeysWhereItIsMinusInfinity) {
  UseBias({10, -kInf, 0.5f, -1, -kInf, -kInf, -kInf, -kInf, 0, 0, 0, 0}, 4, 1);
  EXPECT_THAT(Applied(0), ElementsAre(11, -kInf, 3.5f, 3, -kInf));
  EXPECT_THAT(Applied(1), ElementsAre(-kInf, -kInf, -kInf, -kInf, -kInf));
  EXPECT_FALSE(sees_key_);
  UseBias({1, -kInf, 7}, 1, 0);
  EXPECT_THAT(Applied(2), ElementsAre(8, 9, 10, 11, -kInf));
}

TEST_F(HeadMaskTest, ReplacesNonFiniteScoresOfHiddenKeys) {
  UseBias({kNaN, -kInf, kInf, 0}, 0, 1);
  UseDense({0, 1, 0, 1}, 0, 1);
  std::vector<float> scores = {kInf, kNaN, kNaN, 2, kNaN};
  EXPECT_TRUE(HeadMask(call_, 0, 0).Apply(0, {0, 4}, 5, scores.data(), scratch_));
  EXPECT_THAT(scores, ElementsAre(-kInf, -kInf, -kInf, 2, -kInf));
}

TEST_F(HeadMaskTest, LimitsATileToTheKeysThatItsQueriesSee) {
  UseDense({0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0}, 4, 1);
  EXPECT_EQ(TileRange().begin, 1);
  EXPECT_EQ(TileRange().end, 3);
  EXPECT_TRUE(TileRange(2, 1).empty());
  call_.options.compute_hidden = true;
  EXPECT_EQ(TileRange(2, 1).size(), 4);
}

TEST_F(HeadMaskTest, LimitsATileByLimitsAndSegments) {
  call_.mask.limits = {{.q_length = 3, .kv_length = 4, .last_offset = 0}};
  EXPECT_EQ(TileRange(0, 2).end, 2);
  call_.mask.segments = {.q = {6, 6, 6}, .kv = {5, 6, 6, 6}};
  EXPECT_EQ(TileRange().begin, 1);
  EXPECT_EQ(TileRange().end, 3);
  EXPECT_TRUE(TileRange(0, 1).empty());
}

}  // namespace
}  // namespace attention::server
