#include "client/cli/number_format.h"

#include <gmock/gmock.h>

#include <limits>

namespace attention::cli {
namespace {

using ::testing::ElementsAre;

struct NumberCase {
  const char* name;
  double value;
  const char* text;
};

class FormatNumberTest : public ::testing::TestWithParam<NumberCase> {};

TEST_P(FormatNumberTest, WritesWhatFloat32NeedsToBeReadBack) {
  EXPECT_EQ(FormatNumber(GetParam().value), GetParam().text);
}

INSTANTIATE_TEST_SUITE_P(Numbers, FormatNumberTest,
                         ::testing::Values(NumberCase{"Whole", 24, "24.0"}, NumberCase{"Zero", 0, "0.0"},
                                           NumberCase{"Negative", -0.5, "-0.5"},
                                           NumberCase{"EightDigits", 3.99752738f, "3.9975274"},
                                           NumberCase{"DoubleIsShortened", 3.9975273768433653, "3.9975274"},
                                           NumberCase{"Small", 0.002472623156634657, "0.0024726233"},
                                           NumberCase{"Smaller", 1.5e-7, "1.5e-07"},
                                           NumberCase{"Large", 1e8, "100000000.0"},
                                           NumberCase{"Larger", 2.5e9, "2.5e+09"},
                                           NumberCase{"NotANumber", std::numeric_limits<double>::quiet_NaN(), "nan"},
                                           NumberCase{"Infinite", -std::numeric_limits<double>::infinity(), "-inf"}),
                         [](const auto& info) { return info.param.name; });

TEST(NumberFormatTest, ShowsEveryIndexOfAShortAxis) { EXPECT_THAT(ShownIndices(3, 3), ElementsAre(0, 1, 2)); }

TEST(NumberFormatTest, ShowsBothEndsOfALongAxis) {
  EXPECT_THAT(ShownIndices(10, 4), ElementsAre(0, 1, kEllipsis, 8, 9));
  EXPECT_THAT(ShownIndices(10, 3), ElementsAre(0, 1, kEllipsis, 9));
  EXPECT_THAT(ShownIndices(10, 1), ElementsAre(0, kEllipsis));
}

TEST(NumberFormatTest, ShowsNothingOfAnEmptyAxis) {
  EXPECT_THAT(ShownIndices(0, 4), ElementsAre());
  EXPECT_EQ(FormatVector({}, 4), "[]");
}

TEST(NumberFormatTest, AbbreviatesLongVectors) {
  EXPECT_EQ(FormatVector({1, 2, 3, 4, 5}, 5), "[1.0, 2.0, 3.0, 4.0, 5.0]");
  EXPECT_EQ(FormatVector({1, 2, 3, 4, 5}, 2), "[1.0, …, 5.0]");
}

TEST(NumberFormatTest, CountsInWords) {
  EXPECT_EQ(CountOf(1, "row"), "1 row");
  EXPECT_EQ(CountOf(0, "row"), "0 rows");
}

}  // namespace
}  // namespace attention::cli
