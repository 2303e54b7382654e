#include "client/merge.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/testing/matchers.h"

namespace attention {
namespace {

using test::IsOk;
using test::StatusIs;
using ::testing::ElementsAre;
using ::testing::FloatNear;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

Tensor Floats(std::vector<int64_t> shape, const std::vector<float>& values) {
  return {DataType::kFloat32, std::move(shape),
          std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float))};
}

// One query, one head, value_head_dim 1.
KeyShard Single(float context, float log_sum_exp) {
  return {Floats({1, 1, 1}, {context}), Floats({1, 1}, {log_sum_exp})};
}

TEST(MergeKeyShardsTest, IsAttentionOverAllTheKeys) {
  // Keys with scores 0, 1, 2 and values 10, 20, 40: the first two in one shard, the last in another.
  const double e0 = 1, e1 = std::exp(1.0), e2 = std::exp(2.0);
  const KeyShard first = Single(static_cast<float>((10 * e0 + 20 * e1) / (e0 + e1)), std::log(e0 + e1));
  const absl::StatusOr<KeyShard> whole = MergeKeyShards(first, Single(40, 2));
  ASSERT_THAT(whole, IsOk());
  EXPECT_EQ(whole->context.shape, (std::vector<int64_t>{1, 1, 1}));
  EXPECT_NEAR(whole->context.Floats()[0], (10 * e0 + 20 * e1 + 40 * e2) / (e0 + e1 + e2), 1e-5);
  EXPECT_NEAR(whole->log_sum_exp.Floats()[0], std::log(e0 + e1 + e2), 1e-6);
}

TEST(MergeKeyShardsTest, IgnoresAShardWithoutVisibleKeys) {
  for (const float garbage : {7.0f, kNaN, kInfinity}) {
    const absl::StatusOr<KeyShard> right = MergeKeyShards(Single(garbage, -kInfinity), Single(3, 5));
    const absl::StatusOr<KeyShard> left = MergeKeyShards(Single(3, 5), Single(garbage, -kInfinity));
    ASSERT_THAT(right, IsOk());
    ASSERT_THAT(left, IsOk());
    EXPECT_THAT(right->context.Floats(), ElementsAre(3));
    EXPECT_THAT(right->log_sum_exp.Floats(), ElementsAre(5));
    EXPECT_THAT(left->context.Floats(), ElementsAre(3));
    EXPECT_THAT(left->log_sum_exp.Floats(), ElementsAre(5));
  }
}

TEST(MergeKeyShardsTest, GivesZeroIfNeitherShardHasVisibleKeys) {
  const absl::StatusOr<KeyShard> whole = MergeKeyShards(Single(7, -kInfinity), Single(kNaN, -kInfinity));
  ASSERT_THAT(whole, IsOk());
  EXPECT_THAT(whole->context.Floats(), ElementsAre(0));
  EXPECT_THAT(whole->log_sum_exp.Floats(), ElementsAre(-kInfinity));
}

TEST(MergeKeyShardsTest, DoesNotOverflowIfTheScoresAreFarApart) {
  const absl::StatusOr<KeyShard> whole = MergeKeyShards(Single(1, 1e30f), Single(2, -1e30f));
  ASSERT_THAT(whole, IsOk());
  EXPECT_THAT(whole->context.Floats(), ElementsAre(1));
  EXPECT_THAT(whole->log_sum_exp.Floats(), ElementsAre(1e30f));
}

TEST(MergeKeyShardsTest, KeepsNaNInEitherShard) {
  for (const float other : {0.0f, -kInfinity, kInfinity, kNaN}) {
    for (const bool first : {true, false}) {
      const absl::StatusOr<KeyShard> whole =
          MergeKeyShards(Single(1, first ? kNaN : other), Single(2, first ? other : kNaN));
      ASSERT_THAT(whole, IsOk());
      EXPECT_TRUE(std::isnan(whole->context.Floats()[0])) << other << " " << first;
      EXPECT_TRUE(std::isnan(whole->log_sum_exp.Floats()[0])) << other << " " << first;
    }
  }
}

TEST(MergeKeyShardsTest, KeepsInfinity) {
  for (const float other : {0.0f, -kInfinity, kInfinity}) {
    const absl::StatusOr<KeyShard> whole = MergeKeyShards(Single(1, kInfinity), Single(2, other));
    ASSERT_THAT(whole, IsOk());
    EXPECT_THAT(whole->log_sum_exp.Floats(), ElementsAre(kInfinity)) << other;
  }
}

// Two sequences, two heads, three queries, value_head_dim 2. The weight of the first shard is 1 in the row of sequence
// 1, head 0, query 2 and 0 in all others.
TEST(MergeKeyShardsTest, WeighsTheRightRowInEachLayout) {
  const std::vector<float> ones(24, 1), zeros(24, 0);
  std::vector<float> log_sum_exp(12, -kInfinity);
  log_sum_exp[(1 * 2 + 0) * 3 + 2] = 0;
  std::vector<float> other(12, 0);
  other[(1 * 2 + 0) * 3 + 2] = -kInfinity;
  struct Layout {
    HeadAxes axes;
    std::vector<int64_t> shape;
    size_t offset;  // of the row's first number
  };
  const Layout layouts[] = {{HeadAxes::kLengthFeatures, {2, 3, 4}, (1 * 3 + 2) * 4},
                            {HeadAxes::kLengthHeads, {2, 3, 2, 2}, (1 * 3 + 2) * 4},
                            {HeadAxes::kHeadsLength, {2, 2, 3, 2}, ((1 * 2 + 0) * 3 + 2) * 2}};
  for (const Layout& layout : layouts) {
    std::vector<float> expected(24, 0);
    expected[layout.offset] = expected[layout.offset + 1] = 1;
    const absl::StatusOr<KeyShard> whole =
        MergeKeyShards({Floats(layout.shape, ones), Floats({2, 2, 3}, log_sum_exp)},
                       {Floats(layout.shape, zeros), Floats({2, 2, 3}, other)}, layout.axes);
    ASSERT_THAT(whole, IsOk());
    EXPECT_EQ(whole->context.Floats(), expected) << static_cast<int>(layout.axes);
    EXPECT_EQ(whole->context.shape, layout.shape);
  }
}

TEST(MergeKeyShardsTest, IsAssociative) {
  const KeyShard a = Single(1, 0.5f), b = Single(-2, 1.5f), c = Single(4, -1);
  const KeyShard left = MergeKeyShards(MergeKeyShards(a, b).value(), c).value();
  const KeyShard right = MergeKeyShards(a, MergeKeyShards(b, c).value()).value();
  EXPECT_THAT(left.context.Floats(), ElementsAre(FloatNear(right.context.Floats()[0], 1e-6f)));
  EXPECT_THAT(left.log_sum_exp.Floats(), ElementsAre(FloatNear(right.log_sum_exp.Floats()[0], 1e-6f)));
}

TEST(MergeKeyShardsTest, MergesEmptyShards) {
  const KeyShard empty{Floats({0, 2, 4}, {}), Floats({2, 0}, {})};
  const absl::StatusOr<KeyShard> whole = MergeKeyShards(empty, empty);
  ASSERT_THAT(whole, IsOk());
  EXPECT_EQ(whole->context.shape, (std::vector<int64_t>{0, 2, 4}));
  EXPECT_EQ(whole->log_sum_exp.shape, (std::vector<int64_t>{2, 0}));
}

TEST(MergeKeyShardsTest, RefusesShapesThatDoNotMatch) {
  const auto invalid = absl::StatusCode::kInvalidArgument;
  const KeyShard good{Floats({3, 2, 1}, std::vector<float>(6)), Floats({2, 3}, std::vector<float>(6))};
  KeyShard bad = good;
  bad.context.shape = {2, 3, 1};
  EXPECT_THAT(MergeKeyShards(good, bad),
              StatusIs(invalid, "b.context: expected shape [3, 2, 1] as in a.context, got [2, 3, 1]"));
  EXPECT_THAT(MergeKeyShards(bad, bad),
              StatusIs(invalid,
                       "a.context: expected [batch…, q_length, num_heads, value_head_dim] for log_sum_exp [2, 3], got "
                       "[2, 3, 1]"));
  EXPECT_THAT(MergeKeyShards(good, good, HeadAxes::kHeadsLength),
              StatusIs(invalid,
                       "a.context: expected [batch…, num_heads, q_length, value_head_dim] for log_sum_exp [2, 3], got "
                       "[3, 2, 1]"));
  bad = good;
  bad.log_sum_exp = Floats({3, 2}, std::vector<float>(6));
  EXPECT_THAT(MergeKeyShards(good, bad),
              StatusIs(invalid, "b.log_sum_exp: expected shape [2, 3] as in a.log_sum_exp, got [3, 2]"));
  bad = good;
  bad.context.bytes.pop_back();
  EXPECT_THAT(MergeKeyShards(good, bad),
              StatusIs(invalid, "b.context: expected 24 bytes for shape [3, 2, 1] of float32, got 23"));
  // Two heads do not divide three features.
  const KeyShard odd{Floats({3, 3}, std::vector<float>(9)), Floats({2, 3}, std::vector<float>(6))};
  EXPECT_THAT(MergeKeyShards(odd, odd, HeadAxes::kLengthFeatures),
              StatusIs(invalid,
                       "a.context: expected [batch…, q_length, num_heads × value_head_dim] for log_sum_exp [2, 3], "
                       "got [3, 3]"));
}

}  // namespace
}  // namespace attention
