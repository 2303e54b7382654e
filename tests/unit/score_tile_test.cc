#include "server/engine/score_tile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace attention::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsNan;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Two rows of three keys in a primitive of four columns.
struct TwoRows {
  std::vector<float> scores;
  ScoreTile tile() { return {scores.data(), 2, 3, 4}; }
};

TEST(ScoreTileTest, HidesTheColumnsBehindTheLastKey) {
  TwoRows rows{{1, 2, 3, 9, 4, 5, 6, 9}};
  HideKeys({}, rows.tile());
  EXPECT_THAT(rows.scores, ElementsAre(1, 2, 3, -kInf, 4, 5, 6, -kInf));
}

TEST(ScoreTileTest, HidesWhatTheMaskHides) {
  TwoRows rows{{1, 2, 3, 9, 4, 5, 6, 9}};
  const uint8_t mask[] = {1, 0, 1, 0, 1, 0};
  HideKeys({mask, 3, 1}, rows.tile());
  EXPECT_THAT(rows.scores, ElementsAre(1, -kInf, 3, -kInf, -kInf, 5, -kInf, -kInf));
}

TEST(ScoreTileTest, ReadsAMaskThatIsTheSameForAllQueries) {
  TwoRows rows{{1, 2, 3, 9, 4, 5, 6, 9}};
  const uint8_t mask[] = {0, 1, 1};
  HideKeys({mask, 0, 1}, rows.tile());
  EXPECT_THAT(rows.scores, ElementsAre(-kInf, 2, 3, -kInf, -kInf, 5, 6, -kInf));
}

TEST(ScoreTileTest, ReadsAMaskThatIsTheSameForAllKeys) {
  TwoRows rows{{1, 2, 3, 9, 4, 5, 6, 9}};
  const uint8_t mask[] = {1, 0};
  HideKeys({mask, 1, 0}, rows.tile());
  EXPECT_THAT(rows.scores, ElementsAre(1, 2, 3, -kInf, 0, 0, 0, -kInf));
}

TEST(ScoreTileTest, MakesARowThatSeesNoKeyEvenWhateverItsScoresWere) {
  TwoRows rows{{kNaN, kInf, -kInf, 9, 4, 5, 6, 9}};
  const uint8_t mask[] = {0, 0, 0, 1, 1, 1};
  HideKeys({mask, 3, 1}, rows.tile());
  EXPECT_THAT(rows.scores, ElementsAre(0, 0, 0, -kInf, 4, 5, 6, -kInf));
}

TEST(ScoreTileTest, ReplacesNonFiniteScoresAtHiddenKeys) {
  TwoRows rows{{1, kNaN, 3, 9, kInf, 5, 6, 9}};
  const uint8_t mask[] = {1, 0, 1, 0, 1, 1};
  HideKeys({mask, 3, 1}, rows.tile());
  EXPECT_THAT(rows.scores, ElementsAre(1, -kInf, 3, -kInf, -kInf, 5, 6, -kInf));
}

TEST(ScoreTileTest, CorrectsARowByTheSumOfItsWeights) {
  std::vector<float> weights(2 * 12, 0.0f);
  for (int key = 0; key < 11; ++key) weights[key] = 0.125f;  // sums to 1.375
  weights[12 + 10] = 1.0f;
  weights[11] = weights[23] = 100.0f;  // behind the last key
  double corrections[2];
  RowCorrections({weights.data(), 2, 11, 12}, corrections);
  EXPECT_EQ(corrections[0], 1 / 1.375);
  EXPECT_EQ(corrections[1], 1.0);
}

TEST(ScoreTileTest, CorrectsToNaNARowThatIsNaNInPlaces) {
  std::vector<float> weights = {0, kNaN, 0, 9, 0.5f, 0.5f, 0, kNaN};
  double corrections[2];
  RowCorrections({weights.data(), 2, 3, 4}, corrections);
  EXPECT_THAT(corrections[0], IsNan());
  EXPECT_EQ(corrections[1], 1.0);
}

}  // namespace
}  // namespace attention::server
