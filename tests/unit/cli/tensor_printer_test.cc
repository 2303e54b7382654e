#include "client/cli/tensor_printer.h"

#include <gmock/gmock.h>

#include "client/cli/attend/literal.h"

namespace attention::cli {
namespace {

Numbers Read(const std::string& literal, DataType dtype = DataType::kFloat32) {
  const Tensor tensor = ParseLiteral(literal, dtype).value();
  return ToNumbers(tensor).value();
}

TEST(TensorPrinterTest, AlignsDecimalPoints) {
  EXPECT_EQ(PrintTensor(Read("[[1, -2.25], [10.5, 3]]"), {}),
            "[[ 1.0 , -2.25],\n"
            " [10.5 ,  3.0 ]]");
}

TEST(TensorPrinterTest, SeparatesMatricesWithAnEmptyLine) {
  EXPECT_EQ(PrintTensor(Read("[[[1, 2]], [[3, 4]]]"), {}),
            "[[[1.0, 2.0]],\n\n"
            " [[3.0, 4.0]]]");
}

TEST(TensorPrinterTest, IndentsAllLinesButTheFirst) {
  EXPECT_EQ(PrintTensor(Read("[[1], [2]]"), {}, 4), "[[1.0],\n     [2.0]]");
}

TEST(TensorPrinterTest, AbbreviatesLongAxes) {
  EXPECT_EQ(PrintTensor(Read("[[1, 2, 3, 4], [5, 6, 7, 8], [9, 9, 9, 9]]"), {.max_rows = 2, .max_columns = 3}),
            "[[1.0, 2.0, …, 4.0],\n"
            " …,\n"
            " [9.0, 9.0, …, 9.0]]");
}

TEST(TensorPrinterTest, PrintsIntegersWithoutAPoint) {
  EXPECT_EQ(PrintTensor(Read("[[10, -1], [2, 3]]", DataType::kInt64), {}), "[[10, -1],\n [ 2,  3]]");
}

TEST(TensorPrinterTest, PrintsTruthValues) {
  EXPECT_EQ(PrintTensor(Read("[true, 0]", DataType::kBool), {}), "[ true, false]");
}

TEST(TensorPrinterTest, PrintsScalarsAndEmptyTensors) {
  EXPECT_EQ(PrintTensor(Read("7"), {}), "7.0");
  EXPECT_EQ(PrintTensor(Read("[[], []]"), {}), "[[],\n []]");
}

TEST(TensorPrinterTest, WhatItPrintsIsALiteralOfTheSameTensor) {
  const Numbers tensor = Read("[[[0.1, -3e20], [1e-7, 12345]]]");
  const Numbers again = Read(PrintTensor(tensor, NumpyLimits(tensor)));
  EXPECT_EQ(again.shape, tensor.shape);
  EXPECT_EQ(again.values, tensor.values);
}

TEST(TensorPrinterTest, ShowsTheCornersOfTensorsAboveAThousandElements) {
  Numbers tensor{DataType::kFloat32, {1000}, std::vector<double>(1000, 1)};
  EXPECT_EQ(ShownIndices(1000, NumpyLimits(tensor).max_columns).size(), 1000u);
  tensor = {DataType::kFloat32, {1001}, std::vector<double>(1001, 1)};
  EXPECT_EQ(PrintTensor(tensor, NumpyLimits(tensor)), "[1.0, 1.0, 1.0, …, 1.0, 1.0, 1.0]");
}

}  // namespace
}  // namespace attention::cli
