#include "server/batching/lanes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tests/testing/server/batching_fakes.h"

namespace attention::server {
namespace {

using test::MakeTask;
using test::MakeWeightSet;
using test::Tokens;
using testing::ElementsAre;

class LanesTest : public testing::Test {
 protected:
  void Add(const std::shared_ptr<const WeightSet>& weight_set, int64_t tokens, int32_t priority = 0) {
    lanes_.Add(MakeTask({.weight_set = weight_set, .tokens = tokens, .priority = priority}));
  }

  // Takes the next batch of at most `max_batch_tokens`.
  Batch Take(int64_t max_batch_tokens) {
    const BatchLimits limits = {.max_batch_tokens = max_batch_tokens, .max_batch_requests = 100};
    return lanes_.Take(DecideBatch(lanes_.view(), limits, now_), now_);
  }

  // The names of the weight sets of the next batches.
  std::vector<std::string> TakeNames(int count, int64_t max_batch_tokens) {
    std::vector<std::string> names;
    for (int i = 0; i < count; ++i) names.push_back(Take(max_batch_tokens).weight_set->name);
    return names;
  }

  const absl::Time now_ = absl::FromUnixSeconds(1'000'000);
  const std::shared_ptr<const WeightSet> a_ = MakeWeightSet("a");
  const std::shared_ptr<const WeightSet> b_ = MakeWeightSet("b");
  Lanes lanes_;
};

TEST_F(LanesTest, OrdersByPriorityThenArrival) {
  Add(a_, 1);
  Add(a_, 2, -5);
  Add(a_, 3, 7);
  Add(a_, 4);
  Add(a_, 5, 7);
  EXPECT_THAT(Tokens(Take(100)), ElementsAre(3, 5, 1, 4, 2));
}

TEST_F(LanesTest, CountsRequestsAndTokens) {
  Add(a_, 1);
  Add(b_, 2);
  Add(a_, 4);
  EXPECT_EQ(lanes_.requests(), 3);
  EXPECT_EQ(lanes_.tokens(), 7);
  const Batch batch = Take(100);
  EXPECT_EQ(batch.weight_set, a_);
  EXPECT_EQ(batch.close_time, now_);
  EXPECT_EQ(lanes_.requests(), 1);
  EXPECT_EQ(lanes_.tokens(), 2);
}

TEST_F(LanesTest, AlternatesBetweenEqualWeightSets) {
  for (int i = 0; i < 3; ++i) Add(a_, 10);
  for (int i = 0; i < 3; ++i) Add(b_, 10);
  EXPECT_THAT(TakeNames(6, 10), ElementsAre("a", "b", "a", "b", "a", "b"));
}

TEST_F(LanesTest, SharesTokensInsteadOfTurns) {
  for (int i = 0; i < 2; ++i) Add(a_, 30);
  for (int i = 0; i < 6; ++i) Add(b_, 10);
  EXPECT_THAT(TakeNames(8, 10), ElementsAre("a", "b", "b", "b", "a", "b", "b", "b"));
}

TEST_F(LanesTest, CountsAnEmptyRequestAsATurn) {
  for (int i = 0; i < 2; ++i) Add(a_, 0);
  for (int i = 0; i < 2; ++i) Add(b_, 1);
  const BatchLimits limits = {.max_batch_tokens = 1, .max_batch_requests = 1};
  std::vector<std::string> names;
  while (lanes_.requests() > 0) {
    names.push_back(lanes_.Take(DecideBatch(lanes_.view(), limits, now_), now_).weight_set->name);
  }
  EXPECT_THAT(names, ElementsAre("a", "b", "a", "b"));
}

TEST_F(LanesTest, GivesNoCreditForIdleTime) {
  for (int i = 0; i < 14; ++i) Add(a_, 10);
  EXPECT_THAT(TakeNames(10, 10), testing::Each("a"));
  for (int i = 0; i < 3; ++i) Add(b_, 10);
  // With a credit of 100 tokens for its idle time, b would be served three times in a row.
  EXPECT_THAT(TakeNames(6, 10), ElementsAre("b", "a", "b", "a", "b", "a"));
}

TEST_F(LanesTest, RemembersTheServedTokensOfAnEmptyLane) {
  Add(a_, 40);
  for (int i = 0; i < 6; ++i) Add(b_, 10);
  EXPECT_EQ(Take(10).weight_set, a_);  // the only task of a
  Add(a_, 40);                         // a was served 40 tokens more than b
  EXPECT_THAT(TakeNames(6, 10), ElementsAre("b", "b", "b", "b", "a", "b"));
}

TEST_F(LanesTest, ForgetsServedTokensAfterAReset) {
  Add(a_, 1000);
  Take(10);
  lanes_.Reset();
  Add(a_, 10);
  Add(b_, 10);
  EXPECT_THAT(TakeNames(2, 10), ElementsAre("a", "b"));
}

TEST_F(LanesTest, DropsLanesOfDestroyedWeightSets) {
  for (int i = 0; i < 100; ++i) {
    Add(MakeWeightSet("replaced"), 1);
    Take(10);
  }
  Add(a_, 10);
  Take(10);
  EXPECT_EQ(lanes_.view().size(), 1u);
}

TEST_F(LanesTest, RemovesOnlyDeadTasks) {
  bool cancelled = false;
  Add(a_, 1);
  lanes_.Add(MakeTask({.weight_set = a_, .tokens = 2, .cancelled = [&] { return cancelled; }}));
  lanes_.Add(MakeTask({.weight_set = b_, .tokens = 4, .deadline = now_ + absl::Seconds(1)}));
  EXPECT_TRUE(lanes_.RemoveDead(now_).empty());

  cancelled = true;
  const std::vector<DeadTask> dead = lanes_.RemoveDead(now_ + absl::Seconds(1));
  ASSERT_EQ(dead.size(), 2u);
  EXPECT_EQ(dead[0].task->call.tokens, 2);
  EXPECT_EQ(dead[0].status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(dead[1].task->call.tokens, 4);
  EXPECT_EQ(dead[1].status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(lanes_.requests(), 1);
  EXPECT_EQ(lanes_.tokens(), 1);
  EXPECT_THAT(Tokens(Take(100)), ElementsAre(1));
}

}  // namespace
}  // namespace attention::server
