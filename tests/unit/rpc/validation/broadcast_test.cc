#include "server/rpc/validation/broadcast.h"

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

void PrintTo(const BroadcastCase& laid, std::ostream* out) { *out << laid.name; }

class BroadcastTest : public ::testing::TestWithParam<BroadcastCase> {};

// Over 4 heads, 5 queries, 6 keys.
TEST_P(BroadcastTest, LaysATensorOverTheScores) {
  const BroadcastCase& wanted = GetParam();
  const auto laid = BroadcastToScores("bias", View(wanted.tensor),
                                      {.batch = wanted.batch, .num_heads = 4, .q_length = 5, .kv_length = 6});
  ASSERT_THAT(laid, IsOk());
  EXPECT_EQ(laid->dtype, DType::kBFloat16);
  EXPECT_EQ(laid->data, kData);
  EXPECT_EQ(laid->batch_offsets, wanted.batch_offsets);
  EXPECT_EQ(laid->head_stride, wanted.head_stride);
  EXPECT_EQ(laid->q_stride, wanted.q_stride);
  EXPECT_EQ(laid->kv_stride, wanted.kv_stride);
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

struct UnfitCase {
  std::string name;
  Shape tensor;
  std::string shape;
};

void PrintTo(const UnfitCase& unfit, std::ostream* out) { *out << unfit.name; }

class UnfitBroadcastTest : public ::testing::TestWithParam<UnfitCase> {};

TEST_P(UnfitBroadcastTest, NamesBothShapes) {
  const Shape batch = {1};
  EXPECT_THAT(BroadcastToScores("bias", View(GetParam().tensor),
                                {.batch = batch, .num_heads = 1, .q_length = 2, .kv_length = 3}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "bias: shape " + GetParam().shape +
                           " does not broadcast to [1, 1, 2, 3] ([batch…, num_heads, q_length, kv_length])"));
}

INSTANTIATE_TEST_SUITE_P(Shapes, UnfitBroadcastTest,
                         ::testing::Values(UnfitCase{"TooWide", {1, 1, 2, 4}, "[1, 1, 2, 4]"},
                                           UnfitCase{"BatchAndKeysAlone", {3, 16}, "[3, 16]"},
                                           UnfitCase{"OneAxisTooMany", {1, 1, 1, 2, 3}, "[1, 1, 1, 2, 3]"},
                                           UnfitCase{"TwoForOne", {2, 1, 2, 3}, "[2, 1, 2, 3]"},
                                           UnfitCase{"EmptyForSome", {1, 1, 2, 0}, "[1, 1, 2, 0]"}),
                         [](const auto& info) { return info.param.name; });

TEST(BroadcastTest, LoopsOverNothingWhereNoScoreIs) {
  const Shape batch = {kHuge};
  const auto laid =
      BroadcastToScores("bias", View({1, 1, 0, 3}), {.batch = batch, .num_heads = 4, .q_length = 0, .kv_length = 3});
  ASSERT_THAT(laid, IsOk());
  EXPECT_EQ(laid->data, nullptr);
  EXPECT_TRUE(laid->batch_offsets.empty());
}

}  // namespace
}  // namespace attention::server
