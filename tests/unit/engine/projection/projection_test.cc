#include "server/engine/projection/projection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <vector>

namespace attention::server {

bool operator==(const RowTile& a, const RowTile& b) {
  return a.first_tensor == b.first_tensor && a.first_row_in_tensor == b.first_row_in_tensor &&
         a.first_row == b.first_row && a.rows == b.rows;
}

void PrintTo(const RowTile& tile, std::ostream* os) {
  *os << "{tensor " << tile.first_tensor << ", row " << tile.first_row_in_tensor << " of it, row " << tile.first_row
      << " of all, " << tile.rows << " rows}";
}

namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(CutRowsTest, PacksShortTensorsIntoOneTile) {
  EXPECT_THAT(CutRows({3, 5, 7}, true), ElementsAre(RowTile{0, 0, 0, 15}));
}

TEST(CutRowsTest, CutsInTheMiddleOfATensorAtTheTileHeight) {
  EXPECT_THAT(CutRows({60, 10}, true), ElementsAre(RowTile{0, 0, 0, 64}, RowTile{1, 4, 64, 6}));
}

TEST(CutRowsTest, CutsALongTensor) {
  EXPECT_THAT(CutRows({130}, true), ElementsAre(RowTile{0, 0, 0, 64}, RowTile{0, 64, 64, 64}, RowTile{0, 128, 128, 2}));
}

TEST(CutRowsTest, CutsWideTilesWhileManyRowsAreLeft) {
  EXPECT_THAT(CutRows({600, 50}, true),
              ElementsAre(RowTile{0, 0, 0, 128}, RowTile{0, 128, 128, 128}, RowTile{0, 256, 256, 64},
                          RowTile{0, 320, 320, 64}, RowTile{0, 384, 384, 64}, RowTile{0, 448, 448, 64},
                          RowTile{0, 512, 512, 64}, RowTile{0, 576, 576, 64}, RowTile{1, 40, 640, 10}));
  EXPECT_THAT(CutRows({600, 50}, false).size(), 10u);
}

TEST(CutRowsTest, StartsATileWithEachTensorIfTilesMayNotCross) {
  EXPECT_THAT(CutRows({3, 66, 7}, false),
              ElementsAre(RowTile{0, 0, 0, 3}, RowTile{1, 0, 3, 64}, RowTile{1, 64, 67, 2}, RowTile{2, 0, 69, 7}));
}

TEST(CutRowsTest, SkipsEmptyTensors) {
  EXPECT_THAT(CutRows({0, 0}, true), IsEmpty());
  EXPECT_THAT(CutRows({0, 2, 0, 3}, true), ElementsAre(RowTile{1, 0, 0, 5}));
  EXPECT_THAT(CutRows({0, 2, 0, 3}, false), ElementsAre(RowTile{1, 0, 0, 2}, RowTile{3, 0, 2, 3}));
}

}  // namespace
}  // namespace attention::server
