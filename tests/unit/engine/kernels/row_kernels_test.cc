#include "server/engine/kernels/row_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace attention::server {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::IsNan;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

TEST(RowKernelsTest, AddsSumsInFloat64) {
  // In float32, adding 1 to 2²⁵ does not change it.
  std::vector<float> numbers(37, 1.0f);
  numbers[0] = 0x1p25f;
  double sum = 3;
  AddSums({numbers.data(), 1, 37, 37}, &sum);
  EXPECT_EQ(sum, 3 + 0x1p25 + 36);
  AddSums({numbers.data(), 1, 0, 0}, &sum);
  EXPECT_EQ(sum, 3 + 0x1p25 + 36);
}

TEST(RowKernelsTest, AddsEachRowOfABlockByItself) {
  // The numbers are different powers of two, so a sum is right only if it contains each number once.
  for (const int64_t size : {5, 16, 37, 48}) {
    for (const int64_t count : {1, 7, 8, 9, 19}) {
      const int64_t stride = size + 3;
      std::vector<float> numbers(count * stride, kNaN);
      std::vector<double> sums(count, 0.0), expected(count);
      for (int64_t row = 0; row < count; ++row) {
        for (int64_t i = 0; i < size; ++i) numbers[row * stride + i] = std::ldexp(1.0f, static_cast<int>(i + row));
        expected[row] = std::ldexp(std::ldexp(1.0, static_cast<int>(size)) - 1, static_cast<int>(row));
      }
      AddSums({numbers.data(), count, size, stride}, sums.data());
      EXPECT_EQ(sums, expected) << size << " numbers, " << count << " rows";
    }
  }
}

TEST(RowKernelsTest, SumsARowToTheSameBitsAtEveryPosition) {
  std::vector<float> numbers(11 * 50);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = 1.0f / static_cast<float>(3 + i % 50);
  std::vector<double> sums(11, 0.0);
  AddSums({numbers.data(), 11, 50, 50}, sums.data());
  EXPECT_THAT(sums, testing::Each(sums[0]));
  double alone = 0;
  AddSums({numbers.data(), 1, 50, 50}, &alone);
  EXPECT_EQ(alone, sums[0]);
}

TEST(RowKernelsTest, FindsNumbersOfEachTypeThatAreNotFinite) {
  constexpr int64_t kCount = 37;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kFloat64}) {
    SCOPED_TRACE(DTypeName(dtype));
    const int64_t size = DTypeSize(dtype);
    std::vector<std::byte> bytes(kCount * size + 1);
    std::byte* unaligned = bytes.data() + 1;
    std::vector<float> numbers(kCount, -65504.0f);
    FromFloat32(numbers.data(), kCount, dtype, unaligned);
    EXPECT_TRUE(AllFinite(dtype, unaligned, kCount));
    for (const float number : {kInf, -kInf, kNaN}) {
      for (const int64_t at : {0, 20, 36}) {
        numbers.assign(kCount, 1.0f);
        numbers[at] = number;
        FromFloat32(numbers.data(), kCount, dtype, unaligned);
        EXPECT_FALSE(AllFinite(dtype, unaligned, kCount)) << number << " at " << at;
        EXPECT_TRUE(AllFinite(dtype, unaligned, at));
      }
    }
  }
}

TEST(RowKernelsTest, MultipliesInFloat64) {
  for (const int64_t count : {0, 1, 16, 37}) {
    std::vector<double> a(count, 1e38);
    std::vector<float> b(count, 0x1p100f);
    if (count > 1) b[0] = -b[0];
    const double terms = static_cast<double>(count > 1 ? count - 2 : count);
    EXPECT_DOUBLE_EQ(DotProduct(a.data(), b.data(), count), terms * 1e38 * 0x1p100) << count;
  }
}

TEST(RowKernelsTest, MeasuresNorms) {
  std::vector<float> numbers(40, 0.0f);
  numbers[1] = 3;
  numbers[18] = -4;
  numbers[39] = 7;
  std::vector<float> norms(2);
  MeasureNorms({numbers.data(), 2, 20, 20}, norms.data());
  EXPECT_THAT(norms, ElementsAre(5, 7));
  MeasureNorms({numbers.data(), 2, 2, 18}, norms.data());
  EXPECT_THAT(norms, ElementsAre(3, 4));
  MeasureNorms({numbers.data(), 2, 0, 20}, norms.data());
  EXPECT_THAT(norms, ElementsAre(0, 0));
  numbers[19] = kNaN;
  MeasureNorms({numbers.data(), 2, 20, 20}, norms.data());
  EXPECT_THAT(norms, ElementsAre(IsNan(), 7));
}

TEST(RowKernelsTest, FindsNumbersThatAreNotFinite) {
  for (const float number : {kNaN, kInf, -kInf}) {
    for (const int64_t at : {0, 15, 16, 19}) {
      std::vector<float> numbers(20, 1e30f);
      EXPECT_TRUE(AllFinite(numbers.data(), 20, 1));
      numbers[at] = number;
      EXPECT_FALSE(AllFinite(numbers.data(), 20, 1)) << number << " at " << at;
    }
  }
  const float large = 0x1p127f;
  EXPECT_TRUE(AllFinite(&large, 1, 1.5f));
  EXPECT_FALSE(AllFinite(&large, 1, 2.0f));
}

TEST(RowKernelsTest, MultipliesInPlaceAndIntoOtherRows) {
  std::vector<float> numbers = {1, -2, 4}, to(5, 9.0f);
  ScaleRows({numbers.data(), 2, 2, 1}, 0.5f, to.data(), 3);
  EXPECT_THAT(to, ElementsAre(0.5f, -1, 9, -1, 2));
  std::vector<uint16_t> narrow(4);
  const double factors[] = {1, -0.5};
  ScaleRowsToBFloat16({numbers.data(), 2, 2, 1}, factors, narrow.data());
  EXPECT_THAT(narrow, ElementsAre(0x3F80, 0xC000, 0x3F80, 0xC000));
  Correct(numbers.data(), 3, 1.0 / 3, numbers.data());
  EXPECT_THAT(numbers, ElementsAre(1.0f / 3, -2.0f / 3, 4.0f / 3));
}

TEST(RowKernelsTest, RoundsToBFloat16Numbers) {
  // Two halfway cases, which round to even; a number above halfway; a bfloat16 number; one above the largest.
  std::vector<float> numbers = {1.00390625f, 1.01171875f, 1.00390637f, -2, 3.4e38f};
  RoundThroughBFloat16(numbers.data(), 5, numbers.data());
  EXPECT_THAT(numbers, ElementsAre(1, 1.015625f, 1.0078125f, -2, kInf));
}

TEST(NormalizeVectorsTest, NormalizesEachVectorByItself) {
  std::vector<float> vectors = {1, 2, 3, 4, -8, 8, -8, 8};
  NormalizeVectors(2, {1, 1, 1, 1}, vectors.data());
  const double unit = 1 / std::sqrt(1.25 + 1e-6);
  EXPECT_THAT(vectors, ElementsAre(FloatNear(-1.5 * unit, 1e-6), FloatNear(-0.5 * unit, 1e-6),
                                   FloatNear(0.5 * unit, 1e-6), FloatNear(1.5 * unit, 1e-6), FloatNear(-1, 1e-6),
                                   FloatNear(1, 1e-6), FloatNear(-1, 1e-6), FloatNear(1, 1e-6)));
}

// In float32, mean(x²) − mean(x)² of these numbers is 0 or negative.
TEST(NormalizeVectorsTest, KeepsTheVarianceOfNumbersWithALargeMean) {
  std::vector<float> vector = {40000, 40001, 40002, 40003};
  NormalizeVectors(1, {1, 1, 1, 1}, vector.data());
  EXPECT_THAT(vector, ElementsAre(FloatNear(-1.3416402f, 1e-6), FloatNear(-0.4472134f, 1e-6),
                                  FloatNear(0.4472134f, 1e-6), FloatNear(1.3416402f, 1e-6)));
}

TEST(NormalizeVectorsTest, SetsAConstantVectorToZero) {
  std::vector<float> vector = {1234, 1234, 1234};
  NormalizeVectors(1, {5, 5, 5}, vector.data());
  EXPECT_THAT(vector, ElementsAre(0, 0, 0));
}

TEST(NormalizeVectorsTest, MultipliesEachNumberByItsScale) {
  std::vector<float> vector = {-1, 1};
  NormalizeVectors(1, {2, 3}, vector.data());
  EXPECT_THAT(vector, ElementsAre(FloatNear(-2, 1e-5), FloatNear(3, 1e-5)));
}

}  // namespace
}  // namespace attention::server
