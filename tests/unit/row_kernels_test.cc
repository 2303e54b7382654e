#include "server/engine/row_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace attention::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsNan;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

TEST(RowKernelsTest, SumsInFloat64) {
  // In float32 each of the ones would be lost beside 2²⁵.
  std::vector<float> numbers(37, 1.0f);
  numbers[0] = 0x1p25f;
  EXPECT_EQ(Sum(numbers.data(), 37), 0x1p25 + 36);
  EXPECT_EQ(Sum(numbers.data() + 1, 5), 5);
  EXPECT_EQ(Sum(numbers.data(), 0), 0);
}

TEST(RowKernelsTest, MeasuresNorms) {
  std::vector<float> numbers(20, 0.0f);
  numbers[1] = 3;
  numbers[18] = -4;
  EXPECT_EQ(Norm(numbers.data(), 20), 5);
  EXPECT_EQ(Norm(numbers.data(), 2), 3);
  EXPECT_EQ(Norm(numbers.data(), 0), 0);
  numbers[19] = kNaN;
  EXPECT_THAT(Norm(numbers.data(), 20), IsNan());
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

TEST(RowKernelsTest, MultipliesInPlaceOrElsewhere) {
  std::vector<float> numbers = {1, -2, 4}, to(3);
  Scale(numbers.data(), 3, 0.5f, to.data());
  EXPECT_THAT(to, ElementsAre(0.5f, -1, 2));
  Correct(numbers.data(), 3, 1.0 / 3, numbers.data());
  EXPECT_THAT(numbers, ElementsAre(1.0f / 3, -2.0f / 3, 4.0f / 3));
}

}  // namespace
}  // namespace attention::server
