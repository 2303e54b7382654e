#include "server/engine/onednn/tile_shapes.h"

#include <gtest/gtest.h>

namespace attention::server {
namespace {

TEST(TileShapesTest, RoundsTileHeightsUpToSevenSizes) {
  struct Case {
    int64_t rows, height;
  };
  for (const Case c : {Case{1, 4},
                       {4, 4},
                       {5, 8},
                       {8, 8},
                       {9, 16},
                       {16, 16},
                       {17, 32},
                       {32, 32},
                       {33, 48},
                       {49, 64},
                       {64, 64},
                       {65, 128},
                       {128, 128}}) {
    EXPECT_EQ(TileHeight(c.rows), c.height) << c.rows << " rows";
  }
}

TEST(TileShapesTest, CutsWideTilesWhileManyRowsAreLeft) {
  struct Case {
    int64_t rows, next;
  };
  for (const Case c : {Case{1, 1}, {63, 63}, {64, 64}, {200, 64}, {511, 64}, {512, 128}, {8192, 128}}) {
    EXPECT_EQ(NextTile(c.rows), c.next) << c.rows << " rows";
  }
}

TEST(TileShapesTest, UsesSmallerChunksUnderADiagonal) {
  EXPECT_EQ(ChunkKeys({.q_length = 9, .kv_length = 9}), 512);
  EXPECT_EQ(ChunkKeys({.last_offset = 0}), 128);
  EXPECT_EQ(ChunkKeys({.first_offset = -3}), 128);
  EXPECT_EQ(ChunkKeys({.q_length = 1, .kv_length = 8192, .last_offset = 0}), 256);
}

TEST(TileShapesTest, RoundsKeysUpToColumns) {
  struct Case {
    int64_t kv_length, columns;
  };
  for (const Case c : {Case{1, 16},
                       {16, 16},
                       {17, 32},
                       {128, 128},
                       {129, 144},
                       {255, 256},
                       {256, 256},
                       {257, 288},
                       {512, 512},
                       {513, 576},
                       {8192, 8192},
                       {8193, 9216},
                       {60000, 61440}}) {
    EXPECT_EQ(KeyBucket(c.kv_length), c.columns) << c.kv_length << " keys";
  }
}

TEST(TileShapesTest, LeavesAtMostOneColumnInEightUnusedAbove128Keys) {
  for (int64_t kv_length = 129; kv_length < 10000; ++kv_length) {
    const int64_t columns = KeyBucket(kv_length);
    ASSERT_GE(columns, kv_length);
    ASSERT_LE((columns - kv_length) * 8, kv_length) << kv_length << " keys in " << columns << " columns";
  }
}

}  // namespace
}  // namespace attention::server
