#include "server/batching/batch_policy.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tests/testing/server/batching_fakes.h"

namespace attention::server {
namespace {

using test::MakeTask;

absl::Time At(int64_t milliseconds) { return absl::FromUnixSeconds(1'000'000) + absl::Milliseconds(milliseconds); }

struct Waiting {
  int64_t tokens = 1;
  int64_t enqueued_ms = 0;
  std::optional<int64_t> deadline_ms = std::nullopt;
  double cost = 0;
};

struct WaitingLane {
  double served_cost = 0;
  std::vector<Waiting> tasks;
};

struct Chosen {
  size_t lane = 0;
  size_t task_count = 0;
  BatchCloseReason reason = BatchCloseReason::kQueueDrained;
};

struct Case {
  std::string name;
  BatchLimits limits = {};
  std::vector<WaitingLane> lanes;
  int64_t now_ms = 0;
  std::optional<Chosen> chosen;  // empty: no batch yet, decide again at wait_until
  absl::Time wait_until = absl::InfiniteFuture();
};

BatchLimits Limits(int64_t tokens, int64_t requests, int64_t timeout_ms = 0) {
  return {.max_batch_tokens = tokens, .max_batch_requests = requests, .batch_timeout = absl::Milliseconds(timeout_ms)};
}

std::vector<Lane> MakeLanes(const std::vector<WaitingLane>& waiting_lanes) {
  std::vector<Lane> lanes;
  for (const WaitingLane& waiting_lane : waiting_lanes) {
    Lane& lane = lanes.emplace_back();
    lane.served_cost = waiting_lane.served_cost;
    for (const Waiting& waiting : waiting_lane.tasks) {
      auto task = MakeTask({.weight_set = nullptr,
                            .tokens = waiting.tokens,
                            .deadline = waiting.deadline_ms ? At(*waiting.deadline_ms) : absl::InfiniteFuture(),
                            .cost = waiting.cost});
      task->enqueue_time = At(waiting.enqueued_ms);
      lane.tasks.push_back(std::move(task));
    }
  }
  return lanes;
}

using enum BatchCloseReason;

std::vector<Case> LimitCases() {
  return {
      {"NothingQueuedWaitsForever", Limits(8, 4), {}, 0, std::nullopt},
      {"EmptyLanesWaitForever", Limits(8, 4), {{5, {}}, {0, {}}}, 0, std::nullopt},
      {"TakesWhatIsQueuedAtOnce", Limits(8, 4), {{0, {{1}, {2}, {3}}}}, 0, Chosen{0, 3, kQueueDrained}},
      {"StopsAtTheRequestLimit", Limits(8, 2), {{0, {{1}, {2}, {3}}}}, 0, Chosen{0, 2, kMaxRequests}},
      {"NamesTheRequestLimitWhenNothingIsLeft", Limits(8, 3), {{0, {{1}, {2}, {3}}}}, 0, Chosen{0, 3, kMaxRequests}},
      {"StopsBeforeTheTokenLimitIsPassed", Limits(5, 4), {{0, {{2}, {2}, {2}}}}, 0, Chosen{0, 2, kMaxTokens}},
      {"FillsTheTokenLimitExactly", Limits(4, 4), {{0, {{2}, {2}, {2}}}}, 0, Chosen{0, 2, kMaxTokens}},
      {"NamesTheTokenLimitWhenNothingIsLeft", Limits(4, 4), {{0, {{2}, {2}}}}, 0, Chosen{0, 2, kMaxTokens}},
      {"SkipsNoTaskForASmallerOne", Limits(5, 4), {{0, {{2}, {4}, {1}}}}, 0, Chosen{0, 1, kMaxTokens}},
      {"RunsARequestLargerThanABatchAlone", Limits(4, 4), {{0, {{6}, {1}}}}, 0, Chosen{0, 1, kMaxTokens}},
      {"LeavesALargerRequestForTheNextBatch", Limits(4, 4), {{0, {{1}, {6}}}}, 0, Chosen{0, 1, kMaxTokens}},
      {"DoesNotOverflowOnHugeRequests",
       Limits(4, 4),
       {{0, {{1}, {INT64_MAX}, {INT64_MAX}}}},
       0,
       Chosen{0, 1, kMaxTokens}},
      {"StopsBeforeTheCostLimitIsPassed",
       {.max_batch_cost = 10},
       {{0, {{.cost = 6}, {.cost = 4.5}}}},
       0,
       Chosen{0, 1, kMaxCost}},
      {"FillsTheCostLimitExactly",
       {.max_batch_cost = 10},
       {{0, {{.cost = 6}, {.cost = 4}, {.cost = 1}}}},
       0,
       Chosen{0, 2, kMaxCost}},
      {"RunsARequestThatCostsMoreThanABatchAlone",
       {.max_batch_cost = 10},
       {{0, {{.cost = 60}, {.cost = 1}}}},
       0,
       Chosen{0, 1, kMaxCost}},
      {"BatchesEmptyRequests", Limits(4, 4), {{0, {{0}, {0}, {4}}}}, 0, Chosen{0, 3, kMaxTokens}},
  };
}

std::vector<Case> TimeoutCases() {
  return {
      {"WaitsForMoreTasks", Limits(8, 4, 10), {{0, {{1, 3}, {1, 5}}}}, 12, std::nullopt, At(13)},
      {"CountsTheTimeoutFromTheOldestNotTheFirst", Limits(8, 4, 10), {{0, {{1, 5}, {1, 3}}}}, 5, std::nullopt, At(13)},
      {"ClosesWhenTheTimeoutHasPassed", Limits(8, 4, 10), {{0, {{1, 3}, {1, 5}}}}, 13, Chosen{0, 2, kTimeout}},
      {"DoesNotWaitOnceTheRequestLimitIsReached", Limits(8, 2, 10), {{0, {{1}, {1}}}}, 0, Chosen{0, 2, kMaxRequests}},
      {"DoesNotWaitOnceTheTokenLimitIsReached", Limits(2, 4, 10), {{0, {{1}, {2}}}}, 0, Chosen{0, 1, kMaxTokens}},
      {"WaitsHalfOfTheTimeToADeadline", Limits(8, 4, 500), {{0, {{1, 0, 200}}}}, 99, std::nullopt, At(100)},
      {"ClosesAtHalfOfTheTimeToADeadline", Limits(8, 4, 500), {{0, {{1, 0, 200}}}}, 100, Chosen{0, 1, kTimeout}},
      {"UsesTheEarliestDeadlineInTheBatch",
       Limits(8, 4, 500),
       {{0, {{1, 0}, {1, 10, 1000}, {1, 20, 60}}}},
       20,
       std::nullopt,
       At(40)},
      {"IgnoresADeadlineAfterTheTimeout", Limits(8, 4, 10), {{0, {{1, 0, 100}}}}, 0, std::nullopt, At(10)},
      {"KeepsServingWhenTheClockIsSetBack", Limits(8, 4), {{0, {{1, 5000}}}}, 0, Chosen{0, 1, kQueueDrained}},
  };
}

std::vector<Case> FairnessCases() {
  return {
      {"ServesTheLaneWithTheLeastCostServed",
       Limits(8, 4),
       {{7, {{1, 0}}}, {3, {{1, 1}}}, {5, {{1, 2}}}},
       2,
       Chosen{1, 1, kQueueDrained}},
      {"SkipsLanesWithoutTasks", Limits(8, 4), {{0, {}}, {9, {{1}}}}, 0, Chosen{1, 1, kQueueDrained}},
      {"ServesTheOlderOfEqualLanes", Limits(8, 4), {{3, {{1, 2}}}, {3, {{1, 1}}}}, 2, Chosen{1, 1, kQueueDrained}},
      {"NeverMixesWeightSets", Limits(8, 4), {{0, {{1, 0}}}, {0, {{1, 0}}}}, 0, Chosen{0, 1, kQueueDrained}},
      {"ServesAFullLaneWhileALessServedOneWaits",
       Limits(2, 4, 10),
       {{0, {{1, 0}}}, {50, {{1, 1}, {1, 1}}}},
       1,
       Chosen{1, 2, kMaxTokens}},
      {"ServesTheLessServedOfTwoFullLanes",
       Limits(2, 4, 10),
       {{50, {{2, 0}}}, {40, {{2, 1}}}},
       1,
       Chosen{1, 1, kMaxTokens}},
      {"WaitsForTheLaneThatIsReadyFirst", Limits(8, 4, 10), {{0, {{1, 4}}}, {9, {{1, 2}}}}, 5, std::nullopt, At(12)},
  };
}

class BatchPolicyTest : public testing::TestWithParam<Case> {};

TEST_P(BatchPolicyTest, Decides) {
  const Case& c = GetParam();
  const BatchDecision decision = DecideBatch(MakeLanes(c.lanes), LaneChoice::kAll, c.limits, At(c.now_ms));
  ASSERT_EQ(decision.lane.has_value(), c.chosen.has_value());
  if (!c.chosen) {
    EXPECT_EQ(decision.wait_until, c.wait_until);
    return;
  }
  EXPECT_EQ(*decision.lane, c.chosen->lane);
  EXPECT_EQ(decision.task_count, c.chosen->task_count);
  EXPECT_EQ(decision.close_reason, c.chosen->reason);
}

std::string Name(const testing::TestParamInfo<Case>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Limits, BatchPolicyTest, testing::ValuesIn(LimitCases()), Name);
INSTANTIATE_TEST_SUITE_P(Timeout, BatchPolicyTest, testing::ValuesIn(TimeoutCases()), Name);
INSTANTIATE_TEST_SUITE_P(Fairness, BatchPolicyTest, testing::ValuesIn(FairnessCases()), Name);

}  // namespace
}  // namespace attention::server
