#include "server/rpc/validation/mask_validation.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/testing/matchers.h"
#include "tests/testing/server/wire.h"

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

v1::Mask Dense(const v1::Tensor& dense) {
  v1::Mask mask;
  *mask.mutable_dense() = dense;
  return mask;
}

struct BadMask {
  std::string name;
  v1::Tensor dense;
  std::string message;
};

void PrintTo(const BadMask& bad, std::ostream* out) { *out << bad.name; }

class MaskValidationTest : public ::testing::TestWithParam<BadMask> {};

TEST_P(MaskValidationTest, NamesFieldExpectedAndActual) {
  EXPECT_THAT(CheckMask(Dense(GetParam().dense), kScores, false),
              StatusIs(absl::StatusCode::kInvalidArgument, GetParam().message));
}

// Public bug reports: masks of the wrong polarity, type or rank.
INSTANTIATE_TEST_SUITE_P(
    BadMasks, MaskValidationTest,
    ::testing::Values(BadMask{"FloatAdditive", WireTensor(v1::DATA_TYPE_FLOAT32, {1, 1, 2, 3}, std::string(24, '\0')),
                              "mask.dense: expected dtype bool (true = attend; numbers to add to the scores belong in "
                              "bias), got float32"},
                      BadMask{"UInt8", WireTensor(v1::DATA_TYPE_UINT8, {1, 1, 2, 3}, std::string(6, '\1')),
                              "mask.dense: expected dtype bool (true = attend; numbers to add to the scores belong in "
                              "bias), got uint8"},
                      BadMask{"ByteNeither0Nor1", WireBools({1, 1, 2, 3}, {1, 0, 0, 255, 2, 0}),
                              "mask.dense: expected bool elements, 0 or 1, got 255 at element 3"},
                      BadMask{"LastByte2", WireBools({1, 1, 2, 3}, {1, 0, 0, 1, 1, 2}),
                              "mask.dense: expected bool elements, 0 or 1, got 2 at element 5"},
                      BadMask{"TooWide", Ones({1, 1, 2, 4}),
                              "mask.dense: expected a shape that broadcasts to [batch…, num_heads, q_length, "
                              "kv_length] = [1, 1, 2, 3], got [1, 1, 2, 4]"},
                      BadMask{"TooFewBytes", WireTensor(v1::DATA_TYPE_BOOL, {1, 1, 2, 3}, "\1\1\1\1\1"),
                              "mask.dense: expected 6 bytes for shape [1, 1, 2, 3] of bool, got 5"},
                      BadMask{"NegativeSize", WireTensor(v1::DATA_TYPE_BOOL, {-2, -3}, std::string(6, '\1')),
                              "mask.dense: expected sizes of at least 0, got shape [-2, -3]"}),
    [](const auto& info) { return info.param.name; });

TEST(MaskValidationTest, HidesNothingIfEmpty) {
  const auto mask = CheckMask(v1::Mask(), kScores, false);
  ASSERT_THAT(mask, IsOk());
  EXPECT_EQ(mask->dense.data, nullptr);
  EXPECT_TRUE(mask->limits.empty());
  EXPECT_TRUE(mask->segments.empty());
  EXPECT_EQ(MaskBytes(v1::Mask(), *mask), 0);
}

TEST(MaskValidationTest, LeavesTheBytesOfADenseMaskInTheMessage) {
  const v1::Mask wire = Dense(Ones({2, 1}));
  const auto mask = CheckMask(wire, kScores, false);
  ASSERT_THAT(mask, IsOk());
  EXPECT_EQ(mask->dense.data, reinterpret_cast<const std::byte*>(wire.dense().data().data()));
  EXPECT_EQ(mask->dense.dtype, DType::kBool);
  EXPECT_THAT(mask->dense.batch_offsets, ElementsAre(0));
  EXPECT_EQ(mask->dense.q_stride, 1);
  EXPECT_EQ(mask->dense.kv_stride, 0);
}

TEST(MaskValidationTest, CombinesAllParts) {
  const Shape batch = {2};
  v1::Mask wire = Dense(Ones({3}));
  wire.mutable_causal()->set_corner(v1::Diagonal::CORNER_TOP_LEFT);
  wire.mutable_window()->mutable_diagonal()->set_offset(1);
  wire.mutable_window()->set_left(1);
  wire.add_kv_lengths(3);
  wire.add_kv_lengths(2);
  *wire.mutable_q_segment_ids() = WireTensor(v1::DATA_TYPE_INT32, {2}, std::string(8, '\0'));
  const auto mask = CheckMask(wire, {.batch = batch, .num_heads = 1, .q_length = 2, .kv_length = 3}, /*k_is_q=*/true);
  ASSERT_THAT(mask, IsOk());
  EXPECT_THAT(mask->dense.batch_offsets, ElementsAre(0, 0));
  ASSERT_EQ(mask->limits.size(), 2u);
  EXPECT_EQ(mask->limits[1].kv_length, 2);
  EXPECT_EQ(mask->limits[1].first_offset, 0);
  EXPECT_EQ(mask->limits[1].last_offset, 0);
  EXPECT_THAT(mask->segments.q, ElementsAre(0, 0));
  // In the message 3 bytes, 2 lengths and 8 bytes of ids; allocated 2 offsets, 2 limits of 4 numbers, 2 + 2 ids.
  EXPECT_EQ(MaskBytes(wire, *mask), 3 + 2 * 8 + 8 + 8 * (2 + 2 * 4 + 2 + 2));
}

TEST(MaskValidationTest, ChecksBytesEvenWithoutScores) {
  EXPECT_THAT(
      CheckMask(Dense(WireBools({1, 1}, {7})), {.batch = kBatch, .num_heads = 1, .q_length = 0, .kv_length = 3}, false),
      StatusIs(absl::StatusCode::kInvalidArgument, "mask.dense: expected bool elements, 0 or 1, got 7 at element 0"));
}

}  // namespace
}  // namespace attention::server
