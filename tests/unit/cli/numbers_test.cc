#include "client/cli/numbers.h"

#include <gmock/gmock.h>

#include "client/cli/attend/call_inputs.h"
#include "tests/testing/matchers.h"

namespace attention::cli {
namespace {

using ::testing::ElementsAreArray;

Numbers Read(const std::string& literal) {
  const Tensor tensor = ParseLiteral(literal, DataType::kFloat32).value();
  return ToNumbers(tensor).value();
}

struct BroadcastCase {
  const char* name;
  const char* tensor;
  std::vector<double> expected;  // [batch 2, num_heads 1, q_length 2, kv_length 2]
};

class BroadcastTest : public ::testing::TestWithParam<BroadcastCase> {};

TEST_P(BroadcastTest, AlignsAxesAtTheRight) {
  EXPECT_THAT(Broadcast(Read(GetParam().tensor), {2, 1, 2, 2}).value(), ElementsAreArray(GetParam().expected));
}

INSTANTIATE_TEST_SUITE_P(
    Tensors, BroadcastTest,
    ::testing::Values(BroadcastCase{"Scalar", "7", {7, 7, 7, 7, 7, 7, 7, 7}},
                      BroadcastCase{"Keys", "[1, 2]", {1, 2, 1, 2, 1, 2, 1, 2}},
                      BroadcastCase{"Queries", "[[1], [2]]", {1, 1, 2, 2, 1, 1, 2, 2}},
                      BroadcastCase{"Batch", "[[[[1]]], [[[2]]]]", {1, 1, 1, 1, 2, 2, 2, 2}},
                      BroadcastCase{"Dense", "[[[[1, 2], [3, 4]]], [[[5, 6], [7, 8]]]]", {1, 2, 3, 4, 5, 6, 7, 8}}),
    [](const auto& info) { return info.param.name; });

TEST(BroadcastErrorsTest, RefusesAnAxisOfAnotherSize) {
  EXPECT_THAT(
      Broadcast(Read("[1, 0, 1]"), {1, 1, 2, 2}),
      test::StatusIs(absl::StatusCode::kInvalidArgument, "expected a shape that broadcasts to [1, 1, 2, 2], got [3]"));
}

TEST(BroadcastErrorsTest, RefusesMoreAxesThanTheTarget) {
  EXPECT_THAT(
      Broadcast(Read("[[[1]]]"), {2, 2}),
      test::StatusIs(absl::StatusCode::kInvalidArgument, "expected a shape that broadcasts to [2, 2], got [1, 1, 1]"));
}

TEST(BroadcastErrorsTest, GivesNoValuesForAnEmptyAxis) { EXPECT_TRUE(Broadcast(Read("[1]"), {2, 0}).value().empty()); }

TEST(RoundToBFloat16Test, RoundsToEightBits) {
  EXPECT_EQ(RoundToBFloat16(0.9975274), 0.99609375);
  EXPECT_EQ(RoundToBFloat16(3.0), 3.0);
}

TEST(ToNumbersTest, RefusesBytesThatDoNotMatchTheShape) {
  const Tensor tensor{DataType::kFloat32, {2}, std::string(4, '\0')};
  EXPECT_THAT(ToNumbers(tensor),
              test::StatusIs(absl::StatusCode::kInvalidArgument, "expected 8 bytes for float32 [2], got 4"));
}

}  // namespace
}  // namespace attention::cli
