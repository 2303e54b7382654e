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

using test::kSmallCost;
using test::MakeTask;
using test::MakeWeightSet;
using test::TaskOptions;
using test::Tokens;
using testing::ElementsAre;

class LanesTest : public testing::Test {
 protected:
  void Add(const std::shared_ptr<const WeightSet>& weight_set, int64_t tokens, int32_t priority = 0) {
    Add({.weight_set = weight_set, .tokens = tokens, .priority = priority});
  }
  void Add(const TaskOptions& options) {
    std::unique_ptr<Task> task = MakeTask(options);
    lanes_.Add(task);
    EXPECT_EQ(task, nullptr);
  }

  // Takes the next batch of at most `max_batch_tokens`.
  Batch Take(int64_t max_batch_tokens) {
    const BatchLimits limits = {.max_batch_tokens = max_batch_tokens, .max_batch_requests = 100};
    return lanes_.Take(DecideBatch(lanes_.view(), LaneChoice::kAll, limits, now_), now_);
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

TEST_F(LanesTest, SharesCostInsteadOfTurns) {
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
    names.push_back(lanes_.Take(DecideBatch(lanes_.view(), LaneChoice::kAll, limits, now_), now_).weight_set->name);
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

TEST_F(LanesTest, RemembersTheServedCostOfAnEmptyLane) {
  Add(a_, 40);
  for (int i = 0; i < 6; ++i) Add(b_, 10);
  EXPECT_EQ(Take(10).weight_set, a_);  // the only task of a
  Add(a_, 40);                         // a was served 40 tokens more than b
  EXPECT_THAT(TakeNames(6, 10), ElementsAre("b", "b", "b", "b", "a", "b"));
}

TEST_F(LanesTest, ForgetsServedCostAfterAReset) {
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
  const auto stop = std::make_shared<StopToken>();
  Add(a_, 1);
  Add({.weight_set = a_, .tokens = 2, .stop = stop});
  Add({.weight_set = b_, .tokens = 4, .deadline = now_ + absl::Seconds(1)});
  EXPECT_TRUE(lanes_.RemoveDead([&](const Task& task) { return CheckAlive(task, now_); }).empty());

  stop->Cancel();
  const absl::Time later = now_ + absl::Seconds(1);
  const std::vector<DeadTask> dead = lanes_.RemoveDead([&](const Task& task) { return CheckAlive(task, later); });
  ASSERT_EQ(dead.size(), 2u);
  EXPECT_EQ(dead[0].task->call.tokens, 2);
  EXPECT_EQ(dead[0].status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(dead[1].task->call.tokens, 4);
  EXPECT_EQ(dead[1].status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(lanes_.requests(), 1);
  EXPECT_EQ(lanes_.tokens(), 1);
  EXPECT_THAT(Tokens(Take(100)), ElementsAre(1));
}

TEST_F(LanesTest, KeepsSmallTasksApart) {
  Add({.weight_set = a_, .tokens = 1, .cost = 10 * kSmallCost});
  Add({.weight_set = a_, .tokens = 2, .cost = kSmallCost});
  Add({.weight_set = a_, .tokens = 3, .cost = 10 * kSmallCost});
  const BatchLimits limits;
  const Batch small = lanes_.Take(DecideBatch(lanes_.view(), LaneChoice::kSmall, limits, now_), now_);
  EXPECT_THAT(Tokens(small), ElementsAre(2));
  EXPECT_TRUE(small.is_small);
  EXPECT_FALSE(DecideBatch(lanes_.view(), LaneChoice::kSmall, limits, now_).lane.has_value());
  const Batch others = lanes_.Take(DecideBatch(lanes_.view(), LaneChoice::kAll, limits, now_), now_);
  EXPECT_THAT(Tokens(others), ElementsAre(1, 3));
  EXPECT_FALSE(others.is_small);
}

TEST_F(LanesTest, EstimatesTheCostBeforeATask) {
  const auto before = [&](const std::shared_ptr<const WeightSet>& weight_set, double cost) {
    return lanes_.CostBefore(*MakeTask({.weight_set = weight_set, .cost = cost}));
  };
  EXPECT_EQ(before(a_, 5), 0);
  Add(a_, 30);
  Add(a_, 20);
  Add(b_, 100);
  EXPECT_EQ(before(a_, 5), 50 + 55) << "the whole lane, and of the other as much as this lane has with the task";
  EXPECT_EQ(before(b_, 5), 100 + 50);
  EXPECT_EQ(before(MakeWeightSet("c"), 5), 5 + 5);
  EXPECT_EQ(before(a_, 2 * kSmallCost), 0) << "expensive tasks do not wait for small ones";
  Take(1000);
  EXPECT_EQ(before(a_, 5), 5);
}

}  // namespace
}  // namespace attention::server
