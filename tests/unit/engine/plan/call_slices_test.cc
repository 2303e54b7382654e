#include "server/engine/plan/call_slices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace attention::server {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

constexpr int64_t kOutFeatures = 5;

// Seven sequences of 4 queries and 6 keys, one head of 2 numbers.
class CallSlicesTest : public ::testing::Test {
 protected:
  CallSlicesTest() {
    call_.batch = 7;
    call_.q_length = 4;
    call_.kv_length = 6;
    call_.heads = {1, 1, 2, 2};
    call_.inputs_q = {DType::kFloat32, q_shape_, At(q_)};
    call_.inputs_k = call_.inputs_v = {DType::kFloat32, kv_shape_, At(kv_)};
    call_.output = reinterpret_cast<std::byte*>(output_.data());
    call_.also.attn_weights = weights_.data();
  }

  static const std::byte* At(const std::vector<float>& numbers) {
    return reinterpret_cast<const std::byte*>(numbers.data());
  }

  CallSlices Slices(int64_t slice_tokens) {
    const AttentionCall* calls[] = {&call_};
    return CallSlices(calls, kOutFeatures, slice_tokens);
  }

  const Shape q_shape_ = {7, 4, 3}, kv_shape_ = {7, 6, 3};
  std::vector<float> q_ = std::vector<float>(7 * 4 * 3), kv_ = std::vector<float>(7 * 6 * 3);
  std::vector<float> output_ = std::vector<float>(7 * 4 * kOutFeatures), weights_ = std::vector<float>(7 * 4 * 6);
  AttentionCall call_;
};

TEST_F(CallSlicesTest, LeavesACallThatFitsAsItIs) {
  const CallSlices slices = Slices(70);
  EXPECT_THAT(slices.slices(), ElementsAre(&call_));
}

TEST_F(CallSlicesTest, CutsWholeSequences) {
  const CallSlices slices = Slices(35);  // 3 sequences of 10 tokens
  ASSERT_THAT(slices.slices(), SizeIs(3));
  const AttentionCall& second = *slices.slices()[1];
  const AttentionCall& last = *slices.slices()[2];
  EXPECT_EQ(second.batch, 3);
  EXPECT_EQ(second.first_sequence, 3);
  EXPECT_EQ(last.batch, 1);
  EXPECT_EQ(last.first_sequence, 6);
  EXPECT_EQ(second.inputs_q.data, At(q_) + 3 * 4 * 3 * sizeof(float));
  EXPECT_THAT(second.inputs_q.shape, ElementsAre(3, 4, 3));
  EXPECT_EQ(last.inputs_v.data, At(kv_) + 6 * 6 * 3 * sizeof(float));
  EXPECT_THAT(last.inputs_v.shape, ElementsAre(1, 6, 3));
  EXPECT_EQ(second.output, call_.output + 3 * 4 * kOutFeatures * sizeof(float));
  EXPECT_EQ(last.also.attn_weights, weights_.data() + 6 * 4 * 6);
  EXPECT_EQ(last.also.context, nullptr);
}

TEST_F(CallSlicesTest, KeepsOneSequenceThatIsLongerThanASlice) {
  const CallSlices slices = Slices(1);
  ASSERT_THAT(slices.slices(), SizeIs(7));
  EXPECT_EQ(slices.slices()[4]->batch, 1);
}

TEST_F(CallSlicesTest, GivesEachSliceItsPartOfMaskAndBias) {
  const uint8_t dense[] = {1};
  call_.mask.dense = {DType::kBool, reinterpret_cast<const std::byte*>(dense), {0, 1, 2, 3, 4, 5, 6}, 0, 0, 0};
  call_.mask.limits = {{.q_length = 0}, {.q_length = 1}, {.q_length = 2}, {.q_length = 3},
                       {.q_length = 4}, {.q_length = 3}, {.q_length = 2}};
  call_.mask.segments = {.q = std::vector<int64_t>(28), .kv = {1, 2, 3, 4, 5, 6}, .q_batch_stride = 4};
  call_.mask.segments.q[24] = 9;
  const CallSlices slices = Slices(35);
  const AttentionMask& last = slices.slices()[2]->mask;
  EXPECT_THAT(last.dense.batch_offsets, ElementsAre(6));
  EXPECT_EQ(last.limits[0].q_length, 2);
  EXPECT_EQ(slices.slices()[1]->mask.limits[1].q_length, 4);
  EXPECT_THAT(last.segments.q, ElementsAre(9, 0, 0, 0));
  EXPECT_THAT(last.segments.kv, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(slices.slices()[2]->bias.data, nullptr);
}

TEST_F(CallSlicesTest, KeepsLimitsThatHoldForAllSequences) {
  call_.mask.limits = {{.q_length = 2, .kv_length = 3}};
  EXPECT_EQ(Slices(35).slices()[2]->LimitsOf(0).q_length, 2);
}

TEST_F(CallSlicesTest, CutsWavesWhereTheyWouldHoldTooMuch) {
  const CallSlices slices = Slices(10);
  const auto waves = CutWaves(slices.slices(), 25);
  ASSERT_THAT(waves, SizeIs(4));
  EXPECT_THAT(waves[0], ElementsAre(slices.slices()[0], slices.slices()[1]));
  EXPECT_THAT(waves[3], ElementsAre(slices.slices()[6]));
  EXPECT_THAT(CutWaves(slices.slices(), 1), SizeIs(7));
  EXPECT_THAT(CutWaves({}, 25), SizeIs(0));
}

TEST(CallSlicesSizeTest, GivesEveryThreadWork) {
  const HeadShape heads{.num_heads = 12, .num_kv_heads = 12, .head_dim = 64, .value_head_dim = 64};
  EXPECT_EQ(SliceTokens(heads), 85);
  EXPECT_EQ(WaveTokens(heads, 1), 682);
  EXPECT_EQ(WaveTokens(heads, 8), 2048);
}

}  // namespace
}  // namespace attention::server
