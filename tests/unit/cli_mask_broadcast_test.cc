#include <gmock/gmock.h>

#include "client/cli/literal.h"
#include "client/cli/mask_broadcast.h"
#include "tests/testing/matchers.h"

namespace attention::cli {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

Numbers Mask(const std::string& literal) {
  const Tensor tensor = ParseLiteral(literal, DataType::kBool).value();
  return ToNumbers(tensor).value();
}

struct BroadcastCase {
  const char* name;
  const char* mask;
  std::vector<uint8_t> expected;  // [batch 2, num_heads 1, q_length 2, kv_length 2]
};

class MaskBroadcastTest : public ::testing::TestWithParam<BroadcastCase> {};

TEST_P(MaskBroadcastTest, SpreadsAlignedAtTheRight) {
  EXPECT_THAT(BroadcastMask(Mask(GetParam().mask), {2, 1, 2, 2}).value(), ElementsAreArray(GetParam().expected));
}

INSTANTIATE_TEST_SUITE_P(
    Masks, MaskBroadcastTest,
    ::testing::Values(BroadcastCase{"Scalar", "0", {0, 0, 0, 0, 0, 0, 0, 0}},
                      BroadcastCase{"Keys", "[1, 0]", {1, 0, 1, 0, 1, 0, 1, 0}},
                      BroadcastCase{"Queries", "[[1], [0]]", {1, 1, 0, 0, 1, 1, 0, 0}},
                      BroadcastCase{"Batch", "[[[[1]]], [[[0]]]]", {1, 1, 1, 1, 0, 0, 0, 0}},
                      BroadcastCase{"Dense", "[[[[1, 0], [0, 1]]], [[[0, 0], [1, 0]]]]", {1, 0, 0, 1, 0, 0, 1, 0}}),
    [](const auto& info) { return info.param.name; });

TEST(BroadcastMaskTest, RefusesAnAxisOfAnotherSize) {
  EXPECT_THAT(
      BroadcastMask(Mask("[1, 0, 1]"), {1, 1, 2, 2}),
      test::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("shape [3] does not broadcast to [1, 1, 2, 2]")));
}

TEST(BroadcastMaskTest, RefusesMoreAxesThanThereAre) {
  EXPECT_THAT(BroadcastMask(Mask("[[[1]]]"), {2, 2}),
              test::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("mask")));
}

TEST(BroadcastMaskTest, NothingIsVisibleWhereThereIsNothing) {
  EXPECT_TRUE(BroadcastMask(Mask("[1]"), {2, 0}).value().empty());
}

}  // namespace
}  // namespace attention::cli
