#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "server/engine/projection/projection.h"

namespace attention::server {

bool operator==(const RowTile& a, const RowTile& b) {
  return a.first_segment == b.first_segment && a.first_row_in_segment == b.first_row_in_segment &&
         a.first_row == b.first_row && a.rows == b.rows;
}

void PrintTo(const RowTile& tile, std::ostream* os) {
  *os << "{segment " << tile.first_segment << ", row in it " << tile.first_row_in_segment << ", row " << tile.first_row
      << ", " << tile.rows << " rows}";
}

namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<RowSegment> Segments(std::initializer_list<int64_t> rows) {
  std::vector<RowSegment> segments;
  for (const int64_t count : rows) segments.push_back({DType::kFloat32, nullptr, count});
  return segments;
}

TEST(RowTilesTest, PacksShortSegmentsIntoOneTile) {
  EXPECT_THAT(CutRows(Segments({3, 5, 7}), true), ElementsAre(RowTile{0, 0, 0, 15}));
}

TEST(RowTilesTest, CutsAtTheTileHeightInTheMiddleOfASegment) {
  EXPECT_THAT(CutRows(Segments({60, 10}), true), ElementsAre(RowTile{0, 0, 0, 64}, RowTile{1, 4, 64, 6}));
}

TEST(RowTilesTest, CutsALongSegment) {
  EXPECT_THAT(CutRows(Segments({130}), true),
              ElementsAre(RowTile{0, 0, 0, 64}, RowTile{0, 64, 64, 64}, RowTile{0, 128, 128, 2}));
}

TEST(RowTilesTest, CutsWideTilesWhereManyRowsAreLeft) {
  EXPECT_THAT(CutRows(Segments({600, 50}), true),
              ElementsAre(RowTile{0, 0, 0, 128}, RowTile{0, 128, 128, 128}, RowTile{0, 256, 256, 64},
                          RowTile{0, 320, 320, 64}, RowTile{0, 384, 384, 64}, RowTile{0, 448, 448, 64},
                          RowTile{0, 512, 512, 64}, RowTile{0, 576, 576, 64}, RowTile{1, 40, 640, 10}));
  EXPECT_THAT(CutRows(Segments({600, 50}), false).size(), 10u);
}

TEST(RowTilesTest, StartsATileWithEachSegmentWhereTilesMayNotCross) {
  EXPECT_THAT(CutRows(Segments({3, 66, 7}), false),
              ElementsAre(RowTile{0, 0, 0, 3}, RowTile{1, 0, 3, 64}, RowTile{1, 64, 67, 2}, RowTile{2, 0, 69, 7}));
}

TEST(RowTilesTest, PassesOverEmptySegments) {
  EXPECT_THAT(CutRows(Segments({0, 0}), true), IsEmpty());
  EXPECT_THAT(CutRows(Segments({0, 2, 0, 3}), true), ElementsAre(RowTile{1, 0, 0, 5}));
  EXPECT_THAT(CutRows(Segments({0, 2, 0, 3}), false), ElementsAre(RowTile{1, 0, 0, 2}, RowTile{3, 0, 2, 3}));
}

}  // namespace
}  // namespace attention::server
