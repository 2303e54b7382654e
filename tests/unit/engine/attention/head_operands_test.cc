#include "server/engine/attention/head_operands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace attention::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsNan;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Tokens of one sequence and head, with two numbers each.
class HeadOperandsTest : public ::testing::Test {
 protected:
  HeadRows Rows(const std::vector<float>& numbers) {
    tensor_ = {.data = reinterpret_cast<const std::byte*>(numbers.data()), .head_stride = 2, .token_stride = 2};
    return {&tensor_, 0, 0, 2};
  }

  // weights · values of one chunk.
  std::vector<float> Product(const std::vector<float>& weights, size_t chunk_index = 0) {
    const KeyChunk& chunk = head_.chunks()[chunk_index];
    std::vector<float> rows(4 * chunk.columns), context(4 * 2);
    std::copy(weights.begin(), weights.end(), rows.begin());
    onednn_.Matmul({.m = 4, .k = chunk.columns, .n = 2, .weights = WeightsLayout::kPlain}, rows.data(), chunk.values,
                   nullptr, context.data());
    context.resize(2);
    head_.AddNonFinite(chunk, 1, rows.data(), nullptr, context.data());
    return context;
  }

  Onednn onednn_;
  HeadInput tensor_;
  HeadOperands head_;
};

TEST_F(HeadOperandsTest, ReadsTheKeysOfTheRange) {
  const std::vector<float> numbers = {1, 10, 2, 20, 3, 30, 4, 40};
  const HeadRows rows = Rows(numbers);
  head_.Read(onednn_, DType::kFloat32, rows, rows, {1, 3}, 512);
  ASSERT_EQ(head_.chunks().size(), 1u);
  EXPECT_EQ(Columns(head_.chunks()), 16);
  EXPECT_THAT(Product({1, 0}), ElementsAre(2, 20));
  EXPECT_THAT(Product({0.5f, 0.5f}), ElementsAre(2.5f, 25));
  // The last number of a query is added to the score of each key.
  std::vector<float> query = {1, 0, 0.5f, 0, 0, 0, 0, 0, 0, 0, 0, 0}, scores(4 * 16);
  onednn_.Matmul({.m = 4, .k = 3, .n = 16, .weights = WeightsLayout::kTransposed}, query.data(), head_.chunks()[0].keys,
                 nullptr, scores.data());
  EXPECT_THAT(std::vector<float>(scores.begin(), scores.begin() + 3), ElementsAre(2.5f, 3.5f, 0));
}

TEST_F(HeadOperandsTest, CutsKeysIntoChunks) {
  std::vector<float> numbers(2 * 1100);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i / 2);
  const HeadRows rows = Rows(numbers);
  head_.Read(onednn_, DType::kFloat32, rows, rows, {10, 1100}, 512);
  ASSERT_EQ(head_.chunks().size(), 3u);
  EXPECT_EQ(head_.chunks()[1].range.begin, 522);
  EXPECT_EQ(head_.chunks()[1].range.end, 1034);
  EXPECT_EQ(head_.chunks()[2].range.size(), 66);
  EXPECT_EQ(Columns(head_.chunks()), 512 + 512 + 80);
  EXPECT_THAT(Product({1}, 0), ElementsAre(10, 10));
  EXPECT_THAT(Product({1, 1}, 1), ElementsAre(522 + 523, 522 + 523));
  EXPECT_THAT(Product({0, 1}, 2), ElementsAre(1035, 1035));
}

TEST_F(HeadOperandsTest, FindsTheLargestNormOfAnyRangeOfKeys) {
  const std::vector<float> numbers = {3, 4, 0, 1, 0, 2, kNaN, 0, 0, 3};
  const HeadRows rows = Rows(numbers);
  head_.Read(onednn_, DType::kFloat32, rows, rows, {0, 5}, 512);
  EXPECT_EQ(head_.LargestNorm({0, 1}), 5);
  EXPECT_EQ(head_.LargestNorm({0, 3}), 5);
  EXPECT_EQ(head_.LargestNorm({1, 3}), 2);
  EXPECT_EQ(head_.LargestNorm({4, 5}), 3);
  EXPECT_EQ(head_.LargestNorm({2, 2}), 0);
  EXPECT_THAT(head_.LargestNorm({0, 4}), IsNan());
  EXPECT_THAT(head_.LargestNorm({0, 5}), IsNan());
  EXPECT_THAT(head_.LargestNorm({2, 5}), IsNan());
}

TEST_F(HeadOperandsTest, AddsNonFiniteValuesOnlyWithNonZeroWeight) {
  const std::vector<float> numbers = {1, 10, kNaN, 20, 3, 30};
  const HeadRows rows = Rows(numbers);
  head_.Read(onednn_, DType::kFloat32, rows, rows, {0, 3}, 512);
  EXPECT_THAT(Product({0.5f, 0, 0.5f}), ElementsAre(2, 20));
  EXPECT_THAT(Product({0.5f, 0.5f, 0}), ElementsAre(IsNan(), 15));
}

TEST_F(HeadOperandsTest, DropsNonFiniteValuesOfEarlierKeys) {
  const std::vector<float> non_finite = {kNaN, kNaN};
  const std::vector<float> clean = {5, 6};
  HeadRows rows = Rows(non_finite);
  head_.Read(onednn_, DType::kFloat32, rows, rows, {0, 1}, 512);
  rows = Rows(clean);
  head_.Read(onednn_, DType::kFloat32, rows, rows, {0, 1}, 512);
  EXPECT_THAT(Product({1}), ElementsAre(5, 6));
}

TEST_F(HeadOperandsTest, RoundsToBFloat16) {
  const std::vector<float> numbers = {1.001f, 3.01f};  // 1 and 3.015625 in bfloat16
  const HeadRows rows = Rows(numbers);
  head_.Read(onednn_, DType::kBFloat16, rows, rows, {0, 1}, 512);
  std::vector<float> weights(4 * 16), context(4 * 2);
  weights[0] = 1;
  Buffer buffer;
  onednn_.Matmul({.m = 4, .k = 16, .n = 2, .operands = DType::kBFloat16, .weights = WeightsLayout::kPlain},
                 onednn_.Operand(DType::kBFloat16, 64, weights.data(), buffer), head_.chunks()[0].values, nullptr,
                 context.data());
  EXPECT_EQ(context[0], 1.0f);
  EXPECT_EQ(context[1], 3.015625f);
}

TEST_F(HeadOperandsTest, TreatsNumbersThatBFloat16RoundsToInfinityAsNonFinite) {
  for (const float value : {std::numeric_limits<float>::max(), 0x1.FEFFFEp127f}) {
    const std::vector<float> numbers = {value, -value, 1, 1};
    const HeadRows rows = Rows(numbers);
    head_.Read(onednn_, DType::kBFloat16, rows, rows, {0, 2}, 512);
    const bool rounds_to_infinity = value == std::numeric_limits<float>::max();
    std::vector<float> context = {0, 0};
    const float weights[] = {1, 0};
    const double factors[] = {0.5};
    head_.AddNonFinite(head_.chunks()[0], 1, weights, factors, context.data());
    EXPECT_EQ(context[0], rounds_to_infinity ? value / 2 : 0.0f) << value;
    EXPECT_EQ(context[1], rounds_to_infinity ? -value / 2 : 0.0f) << value;
  }
}

TEST(MeanRowTest, AveragesRowsAndReturnsZerosWithoutRows) {
  const std::vector<float> numbers = {1, 10, 2, 20, 6, 60};
  const HeadInput tensor = {.data = reinterpret_cast<const std::byte*>(numbers.data()), .token_stride = 2};
  EXPECT_THAT(MeanRow({&tensor, 0, 0, 2}, 3, nullptr), ElementsAre(3, 30));
  EXPECT_THAT(MeanRow({&tensor, 0, 0, 2}, 0, nullptr), ElementsAre(0, 0));
}

}  // namespace
}  // namespace attention::server
