#include "server/engine/packed_head.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace attention::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsNan;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// One sequence and head of tokens with two numbers each.
class PackedHeadTest : public ::testing::Test {
 protected:
  HeadRows Rows(const std::vector<float>& numbers) {
    tensor_ = {.data = reinterpret_cast<const std::byte*>(numbers.data()), .head_stride = 2, .token_stride = 2};
    return {&tensor_, 0, 0, 2};
  }

  // weights · values of 16 columns.
  std::vector<float> Product(const std::vector<float>& weights) {
    std::vector<float> rows(4 * head_.columns()), context(4 * 2);
    std::copy(weights.begin(), weights.end(), rows.begin());
    onednn_.Matmul({.m = 4, .k = head_.columns(), .n = 2}, rows.data(), head_.values(), nullptr, context.data());
    context.resize(2);
    head_.AddNonFinite(rows.data(), context.data());
    return context;
  }

  Onednn onednn_;
  HeadInput tensor_;
  PackedHead head_;
};

TEST_F(PackedHeadTest, PacksTheKeysOfTheRange) {
  const std::vector<float> numbers = {1, 10, 2, 20, 3, 30, 4, 40};
  const HeadRows rows = Rows(numbers);
  head_.Pack(onednn_, DType::kFloat32, rows, rows, {1, 3});
  EXPECT_EQ(head_.columns(), 16);
  EXPECT_THAT(Product({1, 0}), ElementsAre(2, 20));
  EXPECT_THAT(Product({0.5f, 0.5f}), ElementsAre(2.5f, 25));
  std::vector<float> query = {1, 0, 0, 0, 0, 0, 0, 0}, scores(4 * 16);
  onednn_.Matmul({.m = 4, .k = 2, .n = 16}, query.data(), head_.keys(), nullptr, scores.data());
  EXPECT_THAT(std::vector<float>(scores.begin(), scores.begin() + 3), ElementsAre(2, 3, 0));
}

TEST_F(PackedHeadTest, AddsValuesThatAreNotFiniteOnlyWhereTheyHaveWeight) {
  const std::vector<float> numbers = {1, 10, kNaN, 20, 3, 30};
  const HeadRows rows = Rows(numbers);
  head_.Pack(onednn_, DType::kFloat32, rows, rows, {0, 3});
  EXPECT_THAT(Product({0.5f, 0, 0.5f}), ElementsAre(2, 20));
  EXPECT_THAT(Product({0.5f, 0.5f, 0}), ElementsAre(IsNan(), 15));
}

TEST_F(PackedHeadTest, ForgetsThemWithTheNextPacking) {
  const std::vector<float> spoilt = {kNaN, kNaN};
  const std::vector<float> clean = {5, 6};
  HeadRows rows = Rows(spoilt);
  head_.Pack(onednn_, DType::kFloat32, rows, rows, {0, 1});
  rows = Rows(clean);
  head_.Pack(onednn_, DType::kFloat32, rows, rows, {0, 1});
  EXPECT_THAT(Product({1}), ElementsAre(5, 6));
}

TEST_F(PackedHeadTest, RoundsToBFloat16) {
  const std::vector<float> numbers = {1.001f, 3.01f};  // 1 and 3.015625 in bfloat16
  const HeadRows rows = Rows(numbers);
  head_.Pack(onednn_, DType::kBFloat16, rows, rows, {0, 1});
  std::vector<float> weights(4 * 16), context(4 * 2);
  weights[0] = 1;
  Buffer buffer;
  onednn_.Matmul({.m = 4, .k = 16, .n = 2, .operands = DType::kBFloat16},
                 onednn_.Operand(DType::kBFloat16, 64, weights.data(), buffer), head_.values(), nullptr,
                 context.data());
  EXPECT_EQ(context[0], 1.0f);
  EXPECT_EQ(context[1], 3.015625f);
}

TEST_F(PackedHeadTest, TreatsWhatBFloat16RoundsToInfinityAsNotFinite) {
  for (const float value : {std::numeric_limits<float>::max(), 0x1.FEFFFEp127f}) {
    const std::vector<float> numbers = {value, -value, 1, 1};
    const HeadRows rows = Rows(numbers);
    head_.Pack(onednn_, DType::kBFloat16, rows, rows, {0, 2});
    const bool rounds_to_infinity = value == std::numeric_limits<float>::max();
    std::vector<float> context = {0, 0};
    const float weights[] = {0.5f, 0};
    head_.AddNonFinite(weights, context.data());
    EXPECT_EQ(context[0], rounds_to_infinity ? value / 2 : 0.0f) << value;
    EXPECT_EQ(context[1], rounds_to_infinity ? -value / 2 : 0.0f) << value;
  }
}

TEST(MeanRowTest, AveragesAndGivesZerosForNothing) {
  const std::vector<float> numbers = {1, 10, 2, 20, 6, 60};
  const HeadInput tensor = {.data = reinterpret_cast<const std::byte*>(numbers.data()), .token_stride = 2};
  EXPECT_THAT(MeanRow({&tensor, 0, 0, 2}, 3), ElementsAre(3, 30));
  EXPECT_THAT(MeanRow({&tensor, 0, 0, 2}, 0), ElementsAre(0, 0));
}

}  // namespace
}  // namespace attention::server
