#include "client/cli/text_format.h"

#include <gmock/gmock.h>

#include <limits>

#include "client/cli/attend/call_inputs.h"

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

TEST(TextFormatTest, ShowsEveryIndexOfAShortAxis) { EXPECT_THAT(ShownIndices(3, 3), ElementsAre(0, 1, 2)); }

TEST(TextFormatTest, ShowsBothEndsOfALongAxis) {
  EXPECT_THAT(ShownIndices(10, 4), ElementsAre(0, 1, kEllipsis, 8, 9));
  EXPECT_THAT(ShownIndices(10, 3), ElementsAre(0, 1, kEllipsis, 9));
  EXPECT_THAT(ShownIndices(10, 1), ElementsAre(0, kEllipsis));
}

TEST(TextFormatTest, ShowsNothingOfAnEmptyAxis) {
  EXPECT_THAT(ShownIndices(0, 4), ElementsAre());
  EXPECT_EQ(FormatVector({}, 4), "[]");
}

TEST(TextFormatTest, AbbreviatesLongVectors) {
  EXPECT_EQ(FormatVector({1, 2, 3, 4, 5}, 5), "[1.0, 2.0, 3.0, 4.0, 5.0]");
  EXPECT_EQ(FormatVector({1, 2, 3, 4, 5}, 2), "[1.0, …, 5.0]");
}

TEST(TextFormatTest, CountsInWords) {
  EXPECT_EQ(CountOf(1, "row"), "1 row");
  EXPECT_EQ(CountOf(0, "row"), "0 rows");
}

TEST(TextFormatTest, FormatsBytesWithUnits) {
  EXPECT_EQ(FormatBytes(17), "17 B");
  EXPECT_EQ(FormatBytes(1536), "1.5 KiB");
  EXPECT_EQ(FormatBytes(int64_t{3} << 40), "3072.0 GiB");
}

TEST(TextFormatTest, FormatsTimesWithUnits) {
  EXPECT_EQ(FormatTime(std::chrono::nanoseconds(87340)), "87.3 µs");
  EXPECT_EQ(FormatTime(std::chrono::microseconds(4211)), "4.21 ms");
  EXPECT_EQ(FormatTime(std::chrono::milliseconds(1500)), "1.50 s");
  EXPECT_EQ(FormatTime(std::chrono::microseconds(-4211)), "-4.21 ms");
}

TEST(TextFormatTest, FormatsHeadSizes) {
  EXPECT_EQ(HeadsText({1, 1, 4, 4}), "1 head, head_dim 4");
  EXPECT_EQ(HeadsText({8, 2, 64, 32}), "8 heads (2 for keys and values), head_dim 64, value_head_dim 32");
}

TEST(TableTest, AlignsNumbersRightAndWordsLeft) {
  EXPECT_EQ(FormatTable({{"NAME", "N"}, {"-", "-1"}, {"long name", "1000"}}),
            "NAME          N\n"
            "-            -1\n"
            "long name  1000\n");
}

TEST(TableTest, CountsCharactersNotBytes) {
  EXPECT_EQ(FormatTable({{"µ", "x"}, {"ab", "y"}}),
            "µ   x\n"
            "ab  y\n");
}

Numbers Read(const std::string& literal, DataType dtype = DataType::kFloat32) {
  const Tensor tensor = ParseLiteral(literal, dtype).value();
  return ToNumbers(tensor).value();
}

TEST(PrintTensorTest, AlignsDecimalPoints) {
  EXPECT_EQ(PrintTensor(Read("[[1, -2.25], [10.5, 3]]"), {}),
            "[[ 1.0 , -2.25],\n"
            " [10.5 ,  3.0 ]]");
}

TEST(PrintTensorTest, SeparatesMatricesWithAnEmptyLine) {
  EXPECT_EQ(PrintTensor(Read("[[[1, 2]], [[3, 4]]]"), {}),
            "[[[1.0, 2.0]],\n\n"
            " [[3.0, 4.0]]]");
}

TEST(PrintTensorTest, IndentsAllLinesButTheFirst) {
  EXPECT_EQ(PrintTensor(Read("[[1], [2]]"), {}, 4), "[[1.0],\n     [2.0]]");
}

TEST(PrintTensorTest, AbbreviatesLongAxes) {
  EXPECT_EQ(PrintTensor(Read("[[1, 2, 3, 4], [5, 6, 7, 8], [9, 9, 9, 9]]"), {.max_rows = 2, .max_columns = 3}),
            "[[1.0, 2.0, …, 4.0],\n"
            " …,\n"
            " [9.0, 9.0, …, 9.0]]");
}

TEST(PrintTensorTest, PrintsIntegersWithoutAPoint) {
  EXPECT_EQ(PrintTensor(Read("[[10, -1], [2, 3]]", DataType::kInt64), {}), "[[10, -1],\n [ 2,  3]]");
}

TEST(PrintTensorTest, PrintsBools) { EXPECT_EQ(PrintTensor(Read("[true, 0]", DataType::kBool), {}), "[ true, false]"); }

TEST(PrintTensorTest, PrintsScalarsAndEmptyTensors) {
  EXPECT_EQ(PrintTensor(Read("7"), {}), "7.0");
  EXPECT_EQ(PrintTensor(Read("[[], []]"), {}), "[[],\n []]");
}

TEST(PrintTensorTest, PrintsANestedListOfTheSameTensor) {
  const Numbers tensor = Read("[[[0.1, -3e20], [1e-7, 12345]]]");
  const Numbers again = Read(PrintTensor(tensor, NumpyLimits(tensor)));
  EXPECT_EQ(again.shape, tensor.shape);
  EXPECT_EQ(again.values, tensor.values);
}

TEST(PrintTensorTest, AbbreviatesTensorsOfMoreThanAThousandElements) {
  Numbers tensor{DataType::kFloat32, {1000}, std::vector<double>(1000, 1)};
  EXPECT_EQ(ShownIndices(1000, NumpyLimits(tensor).max_columns).size(), 1000u);
  tensor = {DataType::kFloat32, {1001}, std::vector<double>(1001, 1)};
  EXPECT_EQ(PrintTensor(tensor, NumpyLimits(tensor)), "[1.0, 1.0, 1.0, …, 1.0, 1.0, 1.0]");
}

}  // namespace
}  // namespace attention::cli
