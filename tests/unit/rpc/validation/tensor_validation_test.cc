#include "server/rpc/validation/tensor_validation.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/testing/matchers.h"

namespace attention::server {
namespace {

using ::attention::test::IsOk;
using ::attention::test::StatusIs;

constexpr int64_t kHuge = int64_t{1} << 40;
constexpr std::byte kData[1] = {};

TensorView View(const Shape& shape) { return {DType::kBFloat16, shape, kData}; }

struct BroadcastCase {
  std::string name;
  Shape tensor;
  Shape batch;
  std::vector<int64_t> batch_offsets;
  int64_t head_stride, q_stride, kv_stride;
};

void PrintTo(const BroadcastCase& c, std::ostream* out) { *out << c.name; }

class BroadcastTest : public ::testing::TestWithParam<BroadcastCase> {};

// Scores of 4 heads, 5 queries, 6 keys.
TEST_P(BroadcastTest, ComputesOffsetsAndStrides) {
  const BroadcastCase& c = GetParam();
  const auto broadcast =
      BroadcastToScores("bias", View(c.tensor), {.batch = c.batch, .num_heads = 4, .q_length = 5, .kv_length = 6});
  ASSERT_THAT(broadcast, IsOk());
  EXPECT_EQ(broadcast->dtype, DType::kBFloat16);
  EXPECT_EQ(broadcast->data, kData);
  EXPECT_EQ(broadcast->batch_offsets, c.batch_offsets);
  EXPECT_EQ(broadcast->head_stride, c.head_stride);
  EXPECT_EQ(broadcast->q_stride, c.q_stride);
  EXPECT_EQ(broadcast->kv_stride, c.kv_stride);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, BroadcastTest,
    ::testing::Values(
        BroadcastCase{"Full", {2, 3, 4, 5, 6}, {2, 3}, {0, 120, 240, 360, 480, 600}, 30, 6, 1},
        BroadcastCase{"DiffersByInnerBatchAxisHeadAndKey", {1, 3, 4, 1, 6}, {2, 3}, {0, 24, 48, 0, 24, 48}, 6, 0, 1},
        BroadcastCase{"DiffersByOuterBatchAxis", {2, 1, 1, 1, 1}, {2, 3}, {0, 0, 0, 1, 1, 1}, 0, 0, 0},
        BroadcastCase{"QueriesAlone", {5, 1}, {2, 2}, {0, 0, 0, 0}, 0, 1, 0},
        BroadcastCase{"KeysAlone", {6}, {2}, {0, 0}, 0, 0, 1}, BroadcastCase{"HeadsAlone", {4, 1, 1}, {}, {0}, 1, 0, 0},
        BroadcastCase{"Scalar", {}, {}, {0}, 0, 0, 0}),
    [](const auto& info) { return info.param.name; });

struct BadShape {
  std::string name;
  Shape tensor;
  std::string shape;
};

void PrintTo(const BadShape& bad, std::ostream* out) { *out << bad.name; }

class BadBroadcastTest : public ::testing::TestWithParam<BadShape> {};

TEST_P(BadBroadcastTest, NamesBothShapes) {
  const Shape batch = {1};
  EXPECT_THAT(
      BroadcastToScores("bias", View(GetParam().tensor),
                        {.batch = batch, .num_heads = 1, .q_length = 2, .kv_length = 3}),
      StatusIs(
          absl::StatusCode::kInvalidArgument,
          "bias: expected a shape that broadcasts to [batch…, num_heads, q_length, kv_length] = [1, 1, 2, 3], got " +
              GetParam().shape));
}

INSTANTIATE_TEST_SUITE_P(Shapes, BadBroadcastTest,
                         ::testing::Values(BadShape{"TooWide", {1, 1, 2, 4}, "[1, 1, 2, 4]"},
                                           BadShape{"BatchAndKeysAlone", {3, 16}, "[3, 16]"},
                                           BadShape{"OneAxisTooMany", {1, 1, 1, 2, 3}, "[1, 1, 1, 2, 3]"},
                                           BadShape{"TwoForOne", {2, 1, 2, 3}, "[2, 1, 2, 3]"},
                                           BadShape{"EmptyForSome", {1, 1, 2, 0}, "[1, 1, 2, 0]"}),
                         [](const auto& info) { return info.param.name; });

TEST(BroadcastTest, AllocatesNothingForEmptyScores) {
  const Shape batch = {kHuge};
  const auto broadcast =
      BroadcastToScores("bias", View({1, 1, 0, 3}), {.batch = batch, .num_heads = 4, .q_length = 0, .kv_length = 3});
  ASSERT_THAT(broadcast, IsOk());
  EXPECT_EQ(broadcast->data, nullptr);
  EXPECT_TRUE(broadcast->batch_offsets.empty());
}

}  // namespace
}  // namespace attention::server
