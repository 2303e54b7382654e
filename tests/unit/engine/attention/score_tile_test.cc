#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "server/engine/attention/row_outputs.h"

namespace attention::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsNan;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

TEST(ScoreTileTest, BoundsScoresByTheSoftCapAndKeepsNaN) {
  Onednn onednn;
  Buffer scratch;
  std::vector<float> scores = {0, 1, -1, kNaN, 100, -kInf, kInf, 2.5f};
  CapScores(onednn, 2.0f, {scores.data(), 2, 2, 3, 4}, scratch);
  EXPECT_EQ(scores[0], 0);
  EXPECT_NEAR(scores[1], 2 * std::tanh(0.5), 1e-6);
  EXPECT_NEAR(scores[2], -2 * std::tanh(0.5), 1e-6);
  EXPECT_THAT(scores[3], IsNan());
  EXPECT_THAT(std::vector<float>(scores.begin() + 4, scores.begin() + 7), ElementsAre(2, -2, 2));
  EXPECT_NEAR(scores[7], 2 * std::tanh(1.25), 1e-6);
}

TEST(ScoreTileTest, CorrectsARowByTheSumOfItsWeights) {
  std::vector<float> weights(2 * 12, 0.0f);
  for (int key = 0; key < 11; ++key) weights[key] = 0.125f;  // sums to 1.375
  weights[12 + 10] = 1.0f;
  weights[11] = weights[23] = 100.0f;  // behind the last key
  double corrections[2];
  RowCorrections({weights.data(), 2, 2, 11, 12}, corrections);
  EXPECT_EQ(corrections[0], 1 / 1.375);
  EXPECT_EQ(corrections[1], 1.0);
}

TEST(ScoreTileTest, CorrectsToNaNARowThatIsNaNInPlaces) {
  std::vector<float> weights = {0, kNaN, 0, 9, 0.5f, 0.5f, 0, kNaN};
  double corrections[2];
  RowCorrections({weights.data(), 2, 2, 3, 4}, corrections);
  EXPECT_THAT(corrections[0], IsNan());
  EXPECT_EQ(corrections[1], 1.0);
}

}  // namespace
}  // namespace attention::server
