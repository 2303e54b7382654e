#include "client/cli/attend/call_inputs.h"

#include <gmock/gmock.h>

#include <limits>
#include <string>

#include "tests/testing/matchers.h"

namespace attention::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(LiteralTest, ReadsNestedListsOfNumbers) {
  const Tensor tensor = ParseLiteral("[[[2, 1.5, -1e3], [1, 1, 1]]]", DataType::kFloat32).value();
  EXPECT_EQ(tensor.dtype, DataType::kFloat32);
  EXPECT_THAT(tensor.shape, ElementsAre(1, 2, 3));
  EXPECT_THAT(tensor.Floats(), ElementsAre(2, 1.5, -1000, 1, 1, 1));
}

TEST(LiteralTest, ReadsMasks) {
  const Tensor tensor = ParseLiteral("[[true, false], [1, 0]]", DataType::kBool).value();
  EXPECT_EQ(tensor.dtype, DataType::kBool);
  EXPECT_THAT(tensor.shape, ElementsAre(2, 2));
  EXPECT_EQ(tensor.bytes, std::string("\1\0\1\0", 4));
}

TEST(LiteralTest, ReadsIntegers) {
  const Tensor tensor = ParseLiteral("[[7, -1], [9223372036854775807, 0]]", DataType::kInt64).value();
  EXPECT_EQ(tensor.dtype, DataType::kInt64);
  EXPECT_THAT(tensor.Integers(), ElementsAre(7, -1, 9223372036854775807, 0));
}

TEST(LiteralTest, ReadsInfinityAndNan) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> values = ParseLiteral("[-inf, inf, 1, nan]", DataType::kFloat32).value().Floats();
  EXPECT_THAT(values, ElementsAre(-infinity, infinity, 1, ::testing::IsNan()));
}

TEST(LiteralTest, ReadsTheLargestNumbers) {
  const float largest = std::numeric_limits<float>::max();
  const std::vector<float> values = ParseLiteral("[3.40282347e38, -3.4028235e38]", DataType::kFloat32).value().Floats();
  EXPECT_THAT(values, ElementsAre(largest, -largest));
}

TEST(LiteralTest, ReadsEmptyAxes) {
  EXPECT_THAT(ParseLiteral("[[], []]", DataType::kFloat32).value().shape, ElementsAre(2, 0));
}

struct BadCase {
  const char* name;
  const char* text;
  DataType dtype;
  const char* message;
};

class BadLiteralTest : public ::testing::TestWithParam<BadCase> {};

TEST_P(BadLiteralTest, SaysWhatIsWrong) {
  EXPECT_THAT(ParseLiteral(GetParam().text, GetParam().dtype),
              test::StatusIs(absl::StatusCode::kInvalidArgument, GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Texts, BadLiteralTest,
    ::testing::Values(
        BadCase{"NotJson", "[[1, 2]", DataType::kFloat32, "expected a nested list such as [[1, 2], [3, 4]]"},
        BadCase{"TooLarge", "[1e999]", DataType::kFloat32, "expected a nested list such as [[1, 2], [3, 4]]"},
        BadCase{"ShorterRow", "[[1, 2], [3]]", DataType::kFloat32, "expected a list of 2 at depth 1, got a list of 1"},
        BadCase{"NumberForARow", "[[1, 2], 3]", DataType::kFloat32, "expected a list of 2 at depth 1, got 3"},
        BadCase{"RowForANumber", "[1, [2]]", DataType::kFloat32, "expected a number, got a list of 1"},
        BadCase{"OutOfRange", "[[[1e39, 1, 1]]]", DataType::kFloat32,
                "expected a number in the range of float32, got 1e+39"},
        BadCase{"BelowTheRange", "[-3.4028236e38]", DataType::kFloat32,
                "expected a number in the range of float32, got -3.4028236e+38"},
        BadCase{"Text", "[\"1\"]", DataType::kFloat32, "expected a number, got \"1\""},
        BadCase{"TruthForANumber", "[true]", DataType::kFloat32, "expected a number, got true"},
        BadCase{"NumberForATruth", "[0.5]", DataType::kBool, "expected true, false, 1 or 0, got 0.5"},
        BadCase{"FractionForAnInteger", "[1.5]", DataType::kInt64, "expected an integer, got 1.5"},
        BadCase{"TooLargeAnInteger", "[9223372036854775808]", DataType::kInt64,
                "expected an integer, got 9223372036854775808"},
        BadCase{"InfinityForAnInteger", "[inf]", DataType::kInt64, "expected an integer, got \"inf\""},
        BadCase{"InfinityForATruth", "[-inf]", DataType::kBool, "expected true, false, 1 or 0, got \"-inf\""},
        BadCase{"PartOfAWord", "[infinite]", DataType::kFloat32, "expected a nested list such as [[1, 2], [3, 4]]"},
        BadCase{"TooDeep", "[[[[[[[[[1]]]]]]]]]", DataType::kFloat32, "expected at most 8 axes, got more"}),
    [](const auto& info) { return info.param.name; });

TEST(LiteralTest, DeepNestingCostsNoStack) {
  const std::string deep = "[1, " + std::string(100000, '[') + std::string(100000, ']') + "]";
  EXPECT_THAT(ParseLiteral(deep, DataType::kFloat32),
              test::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("got a list of 1")));
}

}  // namespace
}  // namespace attention::cli
