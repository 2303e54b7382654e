#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/engine/attention_call.h"

namespace attention::server {
namespace {

using Index = EmptyRows::Index;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(EmptyRowsTest, StartsWithNone) {
  const EmptyRows rows;
  EXPECT_EQ(rows.count(), 0);
  EXPECT_THAT(rows.first(), IsEmpty());
}

TEST(EmptyRowsTest, KeepsTheFirstByIndexWhateverTheOrderOfArrival) {
  EmptyRows rows;
  rows.Add({{1, 0, 5}, {0, 1, 2}});
  rows.Add({{0, 0, 7}});
  EXPECT_EQ(rows.count(), 3);
  EXPECT_THAT(rows.first(), ElementsAre(Index{0, 0, 7}, Index{0, 1, 2}, Index{1, 0, 5}));
}

TEST(EmptyRowsTest, CountsAllButKeepsEight) {
  EmptyRows rows;
  for (int64_t query = 19; query >= 0; --query) rows.Add({{0, 0, query}});
  EXPECT_EQ(rows.count(), 20);
  EXPECT_EQ(rows.first().size(), 8u);
  EXPECT_EQ(rows.first().front(), (Index{0, 0, 0}));
  EXPECT_EQ(rows.first().back(), (Index{0, 0, 7}));
}

}  // namespace
}  // namespace attention::server
