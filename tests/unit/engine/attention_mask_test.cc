#include "server/engine/attention_mask.h"

#include <gtest/gtest.h>

#include <string>

namespace attention::server {
namespace {

struct RangeCase {
  std::string name;
  SequenceLimits limits;
  int64_t query;
  int64_t begin, end;  // equal: no key
};

class SequenceLimitsTest : public ::testing::TestWithParam<RangeCase> {};

TEST_P(SequenceLimitsTest, GivesTheKeysOfAQuery) {
  const KeyRange range = GetParam().limits.RangeOf(GetParam().query);
  if (GetParam().begin == GetParam().end) {
    EXPECT_TRUE(range.empty());
    EXPECT_EQ(range.size(), 0);
  } else {
    EXPECT_EQ(range.begin, GetParam().begin);
    EXPECT_EQ(range.end, GetParam().end);
  }
}

constexpr int64_t kFar = kUnbounded;

INSTANTIATE_TEST_SUITE_P(Ranges, SequenceLimitsTest,
                         ::testing::Values(RangeCase{"Everything", {4, 6, -kFar, kFar}, 3, 0, 6},
                                           RangeCase{"NoKeys", {4, 0, -kFar, kFar}, 0, 0, 0},
                                           RangeCase{"CausalTopLeftFirstQuery", {4, 6, -kFar, 0}, 0, 0, 1},
                                           RangeCase{"CausalTopLeftLastQuery", {4, 6, -kFar, 0}, 3, 0, 4},
                                           RangeCase{"CausalBottomRightLastQuery", {4, 6, -kFar, 2}, 3, 0, 6},
                                           RangeCase{"CausalBeforeTheFirstKey", {4, 2, -kFar, -2}, 1, 0, 0},
                                           RangeCase{"CausalBeyondTheLastKey", {4, 2, -kFar, 0}, 3, 0, 2},
                                           RangeCase{"Window", {9, 9, -2, 1}, 4, 2, 6},
                                           RangeCase{"WindowAtTheStart", {9, 9, -2, 1}, 0, 0, 2},
                                           RangeCase{"WindowAfterTheLastKey", {9, 3, -2, 1}, 8, 0, 0},
                                           RangeCase{"NothingBetweenTheOffsets", {9, 9, 2, 1}, 4, 0, 0}),
                         [](const auto& info) { return info.param.name; });

TEST(SequenceLimitsTest, KnowsWhetherAQuerySeesNoKey) {
  EXPECT_FALSE((SequenceLimits{4, 6, -kFar, 0}).HasEmptyRow());
  EXPECT_TRUE((SequenceLimits{4, 2, -kFar, -2}).HasEmptyRow());
  EXPECT_TRUE((SequenceLimits{9, 3, -2, 1}).HasEmptyRow());
  EXPECT_TRUE((SequenceLimits{1, 0, -kFar, kFar}).HasEmptyRow());
  EXPECT_FALSE((SequenceLimits{0, 0, -kFar, kFar}).HasEmptyRow());
}

TEST(KeyRangeTest, UnitesWithTheEmptyRange) {
  const KeyRange range = Union({3, 3}, {4, 6});
  EXPECT_EQ(range.begin, 4);
  EXPECT_EQ(range.end, 6);
  const KeyRange wide = Union({8, 9}, {4, 6});
  EXPECT_EQ(wide.begin, 4);
  EXPECT_EQ(wide.end, 9);
}

}  // namespace
}  // namespace attention::server
