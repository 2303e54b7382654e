#include "server/rpc/mask_validation.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/testing/matchers.h"
#include "tests/testing/wire.h"

namespace attention::server {
namespace {

using ::attention::test::IsOk;
using ::attention::test::StatusIs;
using ::attention::test::WireBools;
using ::attention::test::WireTensor;
using ::testing::ElementsAre;

const Shape kBatch = {1};
const ScoresShape kScores = {.batch = kBatch, .num_heads = 1, .q_length = 2, .kv_length = 3};

v1::Tensor Ones(const Shape& shape) {
  return WireTensor(v1::DATA_TYPE_BOOL, shape, std::string(*ElementCount(shape), '\1'));
}

struct BadMask {
  std::string name;
  v1::Tensor mask;
  std::string message;
};

void PrintTo(const BadMask& bad, std::ostream* out) { *out << bad.name; }

class MaskValidationTest : public ::testing::TestWithParam<BadMask> {};

TEST_P(MaskValidationTest, NamesWantedAndFound) {
  EXPECT_THAT(CheckMask(GetParam().mask, kScores), StatusIs(absl::StatusCode::kInvalidArgument, GetParam().message));
}

// From public bug reports: a mask's polarity, type and rank mistaken.
INSTANTIATE_TEST_SUITE_P(
    BadMasks, MaskValidationTest,
    ::testing::Values(
        BadMask{"FloatAdditive", WireTensor(v1::DATA_TYPE_FLOAT32, {1, 1, 2, 3}, std::string(24, '\0')),
                "mask.dense: dtype float32, wanted bool (true = attend; numbers that are added to scores are no mask)"},
        BadMask{"UInt8", WireTensor(v1::DATA_TYPE_UINT8, {1, 1, 2, 3}, std::string(6, '\1')),
                "mask.dense: dtype uint8, wanted bool (true = attend; numbers that are added to scores are no mask)"},
        BadMask{"ByteNeither0Nor1", WireBools({1, 1, 2, 3}, {1, 0, 0, 255, 2, 0}),
                "mask.dense: element 3 is 255, wanted a bool: 0 or 1"},
        BadMask{"LastByte2", WireBools({1, 1, 2, 3}, {1, 0, 0, 1, 1, 2}),
                "mask.dense: element 5 is 2, wanted a bool: 0 or 1"},
        BadMask{"TooWide", Ones({1, 1, 2, 4}),
                "mask.dense: shape [1, 1, 2, 4] does not broadcast to [1, 1, 2, 3] ([batch…, num_heads, q_length, "
                "kv_length])"},
        BadMask{"BatchAndKeysOnly", Ones({3, 16}),
                "mask.dense: shape [3, 16] does not broadcast to [1, 1, 2, 3] ([batch…, num_heads, q_length, "
                "kv_length])"},
        BadMask{"OneAxisTooMany", Ones({1, 1, 1, 2, 3}),
                "mask.dense: shape [1, 1, 1, 2, 3] does not broadcast to [1, 1, 2, 3] ([batch…, num_heads, q_length, "
                "kv_length])"},
        BadMask{"EmptyForSome", Ones({1, 1, 2, 0}),
                "mask.dense: shape [1, 1, 2, 0] does not broadcast to [1, 1, 2, 3] ([batch…, num_heads, q_length, "
                "kv_length])"},
        BadMask{"TooFewBytes", WireTensor(v1::DATA_TYPE_BOOL, {1, 1, 2, 3}, "\1\1\1\1\1"),
                "mask.dense: shape [1, 1, 2, 3] of bool wants 6 bytes, got 5"},
        BadMask{"NegativeSize", WireTensor(v1::DATA_TYPE_BOOL, {-2, -3}, std::string(6, '\1')),
                "mask.dense: shape [-2, -3] has a negative size"}),
    [](const auto& info) { return info.param.name; });

TEST(MaskValidationTest, LaysAFullMaskOverTheScores) {
  const Shape batch = {2, 3};
  const v1::Tensor tensor = Ones({2, 3, 4, 5, 6});
  const auto mask = CheckMask(tensor, {.batch = batch, .num_heads = 4, .q_length = 5, .kv_length = 6});
  ASSERT_THAT(mask, IsOk());
  EXPECT_EQ(mask->data, reinterpret_cast<const uint8_t*>(tensor.data().data()));
  EXPECT_THAT(mask->batch_offsets, ElementsAre(0, 120, 240, 360, 480, 600));
  EXPECT_EQ(mask->head_stride, 30);
  EXPECT_EQ(mask->q_stride, 6);
  EXPECT_EQ(mask->kv_stride, 1);
}

TEST(MaskValidationTest, RepeatsAxesOfSizeOne) {
  const Shape batch = {2, 3};
  // Differs by the inner batch axis, by head and by key.
  const auto mask = CheckMask(Ones({1, 3, 4, 1, 6}), {.batch = batch, .num_heads = 4, .q_length = 5, .kv_length = 6});
  ASSERT_THAT(mask, IsOk());
  EXPECT_THAT(mask->batch_offsets, ElementsAre(0, 24, 48, 0, 24, 48));
  EXPECT_EQ(mask->head_stride, 6);
  EXPECT_EQ(mask->q_stride, 0);
  EXPECT_EQ(mask->kv_stride, 1);
}

TEST(MaskValidationTest, RepeatsMissingAxes) {
  const Shape batch = {2, 2};
  const auto mask = CheckMask(Ones({5, 1}), {.batch = batch, .num_heads = 4, .q_length = 5, .kv_length = 6});
  ASSERT_THAT(mask, IsOk());
  EXPECT_THAT(mask->batch_offsets, ElementsAre(0, 0, 0, 0));
  EXPECT_EQ(mask->head_stride, 0);
  EXPECT_EQ(mask->q_stride, 1);
  EXPECT_EQ(mask->kv_stride, 0);
}

TEST(MaskValidationTest, TakesAScalarForAll) {
  const auto mask = CheckMask(Ones({}), {.batch = {}, .num_heads = 4, .q_length = 5, .kv_length = 6});
  ASSERT_THAT(mask, IsOk());
  EXPECT_NE(mask->data, nullptr);
  EXPECT_THAT(mask->batch_offsets, ElementsAre(0));
  EXPECT_EQ(mask->head_stride, 0);
  EXPECT_EQ(mask->q_stride, 0);
  EXPECT_EQ(mask->kv_stride, 0);
}

TEST(MaskValidationTest, LoopsOverNothingWhereNoScoreIs) {
  const Shape batch = {int64_t{1} << 40};
  const auto mask = CheckMask(Ones({1, 1, 0, 3}), {.batch = batch, .num_heads = 4, .q_length = 0, .kv_length = 3});
  ASSERT_THAT(mask, IsOk());
  EXPECT_EQ(mask->data, nullptr);
  EXPECT_TRUE(mask->batch_offsets.empty());
}

TEST(MaskValidationTest, ChecksBytesEvenWhereNoScoreIs) {
  EXPECT_THAT(CheckMask(WireBools({1, 1}, {7}), {.batch = kBatch, .num_heads = 1, .q_length = 0, .kv_length = 3}),
              StatusIs(absl::StatusCode::kInvalidArgument, "mask.dense: element 0 is 7, wanted a bool: 0 or 1"));
}

}  // namespace
}  // namespace attention::server
