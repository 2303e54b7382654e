#include "server/engine/kernels/layer_norm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace attention::server {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;

TEST(LayerNormTest, NormalizesEachVectorByItself) {
  std::vector<float> vectors = {1, 2, 3, 4, -8, 8, -8, 8};
  NormalizeVectors(2, {1, 1, 1, 1}, vectors.data());
  const double unit = 1 / std::sqrt(1.25 + 1e-6);
  EXPECT_THAT(vectors, ElementsAre(FloatNear(-1.5 * unit, 1e-6), FloatNear(-0.5 * unit, 1e-6),
                                   FloatNear(0.5 * unit, 1e-6), FloatNear(1.5 * unit, 1e-6), FloatNear(-1, 1e-6),
                                   FloatNear(1, 1e-6), FloatNear(-1, 1e-6), FloatNear(1, 1e-6)));
}

// mean(x²) − mean(x)² of these in float32 is 0 or worse.
TEST(LayerNormTest, KeepsTheVarianceOfNumbersWithALargeMean) {
  std::vector<float> vector = {40000, 40001, 40002, 40003};
  NormalizeVectors(1, {1, 1, 1, 1}, vector.data());
  EXPECT_THAT(vector, ElementsAre(FloatNear(-1.3416402f, 1e-6), FloatNear(-0.4472134f, 1e-6),
                                  FloatNear(0.4472134f, 1e-6), FloatNear(1.3416402f, 1e-6)));
}

TEST(LayerNormTest, MakesAConstantVectorZero) {
  std::vector<float> vector = {1234, 1234, 1234};
  NormalizeVectors(1, {5, 5, 5}, vector.data());
  EXPECT_THAT(vector, ElementsAre(0, 0, 0));
}

TEST(LayerNormTest, AppliesTheScaleOfEachPlace) {
  std::vector<float> vector = {-1, 1};
  NormalizeVectors(1, {2, 3}, vector.data());
  EXPECT_THAT(vector, ElementsAre(FloatNear(-2, 1e-5), FloatNear(3, 1e-5)));
}

}  // namespace
}  // namespace attention::server
