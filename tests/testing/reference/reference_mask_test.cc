#include "tests/testing/reference/reference_mask.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/testing/server/wire.h"

namespace attention::test {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

TEST(BroadcastTest, RepeatsMissingAxesAndAxesOfSizeOne) {
  EXPECT_THAT(Broadcast<int>({1, 0}, {2}, {1, 1, 2, 2}), ElementsAre(1, 0, 1, 0));
  EXPECT_THAT(Broadcast<int>({1, 0}, {2, 1}, {1, 1, 2, 2}), ElementsAre(1, 1, 0, 0));
  EXPECT_THAT(Broadcast<int>({1, 0}, {2, 1, 1, 1}, {2, 1, 1, 3}), ElementsAre(1, 1, 1, 0, 0, 0));
  EXPECT_THAT(Broadcast<int>({1}, {}, {2, 1}), ElementsAre(1, 1));
}

struct Case {
  const char* name;
  const char* mask;  // protobuf text format
  std::vector<int64_t> scores_shape;
  std::vector<uint8_t> expected;
};

const Case kCases[] = {
    {"NoParts", "", {1, 2, 2}, {1, 1, 1, 1}},
    {"TopLeft", "causal { corner: CORNER_TOP_LEFT }", {1, 2, 4}, {1, 0, 0, 0, 1, 1, 0, 0}},
    {"BottomRight", "causal { corner: CORNER_BOTTOM_RIGHT }", {1, 2, 4}, {1, 1, 1, 0, 1, 1, 1, 1}},
    {"BottomRightWithMoreQueriesThanKeys", "causal { corner: CORNER_BOTTOM_RIGHT }", {1, 3, 2}, {0, 0, 1, 0, 1, 1}},
    {"BottomRightOfTheLengthsOfTheSequence",
     "causal { corner: CORNER_BOTTOM_RIGHT } kv_lengths: 3 kv_lengths: 2 q_lengths: 2 q_lengths: 1",
     {2, 1, 2, 4},
     {1, 1, 0, 0, 1, 1, 1, 0, 1, 1, 0, 0, 1, 1, 0, 0}},
    {"Offset", "causal { offset: 1 }", {1, 2, 4}, {1, 1, 0, 0, 1, 1, 1, 0}},
    {"NegativeOffset", "causal { offset: -1 }", {1, 2, 2}, {0, 0, 1, 0}},
    {"LargestOffset", "causal { offset: 9223372036854775807 }", {1, 1, 2}, {1, 1}},
    {"WindowWithTheLargestNumbers",
     "window { diagonal { offset: -9223372036854775808 } left: 0 right: 9223372036854775807 }",
     {1, 2, 3},
     {0, 0, 0, 1, 0, 0}},
    {"WindowWithLeftAndRight",
     "window { diagonal { offset: 0 } left: 1 right: 0 }",
     {1, 3, 3},
     {1, 0, 0, 1, 1, 0, 0, 1, 1}},
    {"WindowWithoutLeft", "window { diagonal { offset: 0 } right: 1 }", {1, 2, 4}, {1, 1, 0, 0, 1, 1, 1, 0}},
    {"WindowWithUnlimitedRight",
     "window { diagonal { offset: 1 } left: 0 right: -1 }",
     {1, 2, 4},
     {0, 1, 1, 1, 0, 0, 1, 1}},
    {"WindowAtTheBottomRight",
     "window { diagonal { corner: CORNER_BOTTOM_RIGHT } left: 0 right: 0 }",
     {1, 2, 3},
     {0, 1, 0, 0, 0, 1}},
    {"KvLengths", "kv_lengths: 0 kv_lengths: 2", {2, 1, 1, 3}, {0, 0, 0, 1, 1, 0}},
    {"CombinedParts", "causal { corner: CORNER_TOP_LEFT } kv_lengths: 1", {1, 1, 2, 2}, {1, 0, 1, 0}},
};

class DenseMaskTest : public ::testing::TestWithParam<Case> {};

TEST_P(DenseMaskTest, FollowsTheDocumentation) {
  v1::Mask mask;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(GetParam().mask, &mask));
  EXPECT_THAT(DenseMask(mask, GetParam().scores_shape), ElementsAreArray(GetParam().expected));
}

INSTANTIATE_TEST_SUITE_P(Cases, DenseMaskTest, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(DenseMaskTest, ComparesSegmentIds) {
  v1::Mask mask;
  *mask.mutable_q_segment_ids() = WireInt32s({3}, {1, 1, 2});
  EXPECT_THAT(DenseMask(mask, {1, 3, 3}), ElementsAre(1, 1, 0, 1, 1, 0, 0, 0, 1));
  *mask.mutable_q_segment_ids() = WireInt64s({2, 1}, {7, 8});
  const int64_t large = std::numeric_limits<int64_t>::max();
  *mask.mutable_kv_segment_ids() = WireInt64s({2, 2}, {7, large, large - 1, 8});
  EXPECT_THAT(DenseMask(mask, {2, 1, 1, 2}), ElementsAre(1, 0, 0, 1));
}

TEST(DenseMaskTest, CombinesTheDensePartWithTheOthers) {
  v1::Mask mask;
  *mask.mutable_dense() = WireBools({2, 1, 1}, {1, 0});
  mask.add_kv_lengths(1);
  EXPECT_THAT(DenseMask(mask, {1, 2, 1, 2}), ElementsAre(1, 0, 0, 0));
}

}  // namespace
}  // namespace attention::test
