#include "server/engine/plan/waves.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <vector>

namespace attention::server {

bool operator==(const CallSlice& a, const CallSlice& b) {
  return a.call == b.call && a.first_sequence == b.first_sequence && a.sequences == b.sequences;
}

void PrintTo(const CallSlice& slice, std::ostream* out) {
  *out << "{call " << slice.call << ", first sequence " << slice.first_sequence << ", " << slice.sequences
       << " sequences}";
}

namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Seven sequences of 4 queries and 6 keys.
class WavesTest : public ::testing::Test {
 protected:
  WavesTest() {
    call_.shape.batch = 7;
    call_.shape.q_length = 4;
    call_.shape.kv_length = 6;
  }

  std::vector<CallSlice> Slices(int64_t slice_tokens) {
    const AttentionCall* calls[] = {&call_};
    return CutCalls(calls, slice_tokens);
  }

  AttentionCall call_;
};

TEST_F(WavesTest, MakesOneSliceOfACallThatFits) { EXPECT_THAT(Slices(70), ElementsAre(CallSlice{&call_, 0, 7})); }

TEST_F(WavesTest, CutsBetweenSequences) {
  EXPECT_THAT(Slices(35), ElementsAre(CallSlice{&call_, 0, 3}, CallSlice{&call_, 3, 3}, CallSlice{&call_, 6, 1}));
}

TEST_F(WavesTest, KeepsASequenceWholeThatIsLongerThanASlice) {
  ASSERT_THAT(Slices(1), SizeIs(7));
  EXPECT_EQ(Slices(1)[4], (CallSlice{&call_, 4, 1}));
}

TEST_F(WavesTest, CountsTokensOnceWithSelfAttention) {
  call_.shape.kv_length = 4;
  call_.shape.sharing = InputSharing::kAll;
  EXPECT_THAT(Slices(12), ElementsAre(CallSlice{&call_, 0, 3}, CallSlice{&call_, 3, 3}, CallSlice{&call_, 6, 1}));
}

TEST_F(WavesTest, KeepsTheOrderOfTheCalls) {
  AttentionCall other;
  other.shape.batch = 1;
  other.shape.q_length = other.shape.kv_length = 1;
  const AttentionCall* calls[] = {&other, &call_, &other};
  EXPECT_THAT(CutCalls(calls, 70),
              ElementsAre(CallSlice{&other, 0, 1}, CallSlice{&call_, 0, 7}, CallSlice{&other, 0, 1}));
}

TEST_F(WavesTest, MakesNoSliceOfAnEmptyBatch) {
  call_.shape.batch = 0;
  EXPECT_THAT(Slices(70), IsEmpty());
}

TEST_F(WavesTest, GroupsSlicesIntoWavesThatFit) {
  const std::vector<CallSlice> slices = Slices(10);
  const auto waves = CutWaves(slices, 25);
  ASSERT_THAT(waves, SizeIs(4));
  EXPECT_THAT(waves[0], ElementsAre(slices[0], slices[1]));
  EXPECT_THAT(waves[3], ElementsAre(slices[6]));
  EXPECT_THAT(CutWaves(slices, 1), SizeIs(7));
  EXPECT_THAT(CutWaves({}, 25), IsEmpty());
}

TEST(WaveTokensTest, GivesEveryThreadWork) {
  const HeadShape heads{.num_heads = 12, .num_kv_heads = 12, .head_dim = 64, .value_head_dim = 64};
  EXPECT_EQ(SliceTokens(heads), 85);
  EXPECT_EQ(WaveTokens(heads, 1), 682);
  EXPECT_EQ(WaveTokens(heads, 8), 2048);
}

}  // namespace
}  // namespace attention::server
