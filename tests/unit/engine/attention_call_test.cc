#include "server/engine/attention_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace attention::server {
namespace {

using Index = EmptyRowCounter::Index;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(EmptyRowCounterTest, StartsAtZero) {
  const EmptyRowCounter counter;
  EXPECT_EQ(counter.count(), 0);
  EXPECT_THAT(counter.first(), IsEmpty());
}

TEST(EmptyRowCounterTest, KeepsTheSmallestIndicesInAnyOrderOfArrival) {
  EmptyRowCounter counter;
  counter.Add({{1, 0, 5}, {0, 1, 2}});
  counter.Add({{0, 0, 7}});
  EXPECT_EQ(counter.count(), 3);
  EXPECT_THAT(counter.first(), ElementsAre(Index{0, 0, 7}, Index{0, 1, 2}, Index{1, 0, 5}));
}

TEST(EmptyRowCounterTest, CountsAllRowsButKeepsEightIndices) {
  EmptyRowCounter counter;
  for (int64_t query = 19; query >= 0; --query) counter.Add({{0, 0, query}});
  EXPECT_EQ(counter.count(), 20);
  EXPECT_EQ(counter.first().size(), 8u);
  EXPECT_EQ(counter.first().front(), (Index{0, 0, 0}));
  EXPECT_EQ(counter.first().back(), (Index{0, 0, 7}));
}

// Three sequences of 5 queries and 8 keys.
AttentionCall Call(std::vector<SequenceLimits> limits) {
  AttentionCall call;
  call.shape.batch = 3;
  call.shape.q_length = 5;
  call.shape.kv_length = 8;
  call.mask.limits = std::move(limits);
  return call;
}

TEST(CountTokensTest, CountsEverythingWithoutAMask) { EXPECT_EQ(CountTokens(Call({})), 3 * (5 + 8)); }

TEST(CountTokensTest, LeavesOutTokensHiddenByLengths) {
  EXPECT_EQ(CountTokens(Call({{.q_length = 2, .kv_length = 3}})), 3 * (2 + 3));
  EXPECT_EQ(CountTokens(Call(
                {{.q_length = 2, .kv_length = 3}, {.q_length = 0, .kv_length = 8}, {.q_length = 5, .kv_length = 1}})),
            5 + 0 + 6);
}

TEST(CountTokensTest, CountsAllKeysIfTheMeanOfAllValuesMayBeNeeded) {
  AttentionCall call = Call({{.q_length = 2, .kv_length = 0}});
  EXPECT_EQ(CountTokens(call), 3 * (2 + 8));
  call.options.empty_rows = EmptyRowRule::kZero;
  EXPECT_EQ(CountTokens(call), 3 * 2);
}

TEST(CountTokensTest, CountsTheLongerOfQueriesAndKeysWithSelfAttention) {
  AttentionCall call = Call({{.q_length = 2, .kv_length = 3}});
  call.shape.kv_length = 5;
  call.shape.sharing = InputSharing::kAll;
  EXPECT_EQ(CountTokens(call), 3 * 3);
}

TEST(CountTokensTest, IsZeroForAnEmptyBatch) {
  AttentionCall call = Call({});
  call.shape.batch = 0;
  EXPECT_EQ(CountTokens(call), 0);
}

}  // namespace
}  // namespace attention::server
