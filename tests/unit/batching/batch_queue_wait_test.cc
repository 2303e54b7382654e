#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/batching/batch_queue.h"
#include "tests/testing/server/batching_fakes.h"

namespace attention::server {
namespace {

using test::FakeClock;
using test::MakeTask;
using test::MakeWeightSet;
using test::Tokens;
using testing::ElementsAre;

constexpr absl::Duration kNeverInThisTest = absl::Hours(1);

// Tests with threads that wait in Pop.
class BatchQueueWaitTest : public testing::Test {
 protected:
  void MakeQueue(const BatchLimits& limits) { queue_.emplace(BatchQueueOptions{.limits = limits}, clock_.function()); }

  void Push(const std::shared_ptr<const WeightSet>& weight_set, int64_t tokens) {
    std::unique_ptr<Task> task = MakeTask({.weight_set = weight_set, .tokens = tokens});
    ASSERT_EQ(queue_->Push(task), absl::OkStatus());
  }

  // Starts runners that take one batch each, and returns once all of them wait. Pop reads the clock twice, the second
  // time with the lock held, which it releases only to wait.
  void StartWaitingRunners(size_t count) {
    const int reads = clock_.reads();
    batches_.resize(count);
    for (size_t i = 0; i < count; ++i) runners_.emplace_back([this, i] { batches_[i] = queue_->Pop(); });
    clock_.AwaitReads(reads + 2 * static_cast<int>(count));
    queue_->stats();
  }
  const std::vector<std::optional<Batch>>& Join() {
    for (std::thread& runner : runners_) runner.join();
    runners_.clear();
    return batches_;
  }

  FakeClock clock_;
  const std::shared_ptr<const WeightSet> a_ = MakeWeightSet("a");
  const std::shared_ptr<const WeightSet> b_ = MakeWeightSet("b");
  std::optional<BatchQueue> queue_;
  std::vector<std::optional<Batch>> batches_;
  std::vector<std::thread> runners_;
};

TEST_F(BatchQueueWaitTest, PushWakesARunner) {
  MakeQueue({});
  StartWaitingRunners(1);
  Push(a_, 5);
  EXPECT_THAT(Tokens(*Join()[0]), ElementsAre(5));
}

TEST_F(BatchQueueWaitTest, CloseWakesEveryRunner) {
  MakeQueue({});
  StartWaitingRunners(3);
  queue_->Close();
  EXPECT_THAT(Join(), testing::Each(testing::Eq(std::nullopt)));
}

TEST_F(BatchQueueWaitTest, WaitsUntilTheBatchIsFull) {
  MakeQueue({.max_batch_requests = 2, .batch_timeout = kNeverInThisTest});
  Push(a_, 1);
  StartWaitingRunners(1);
  Push(a_, 2);
  const std::optional<Batch>& batch = Join()[0];
  EXPECT_THAT(Tokens(*batch), ElementsAre(1, 2));
  EXPECT_EQ(batch->close_reason, BatchCloseReason::kMaxRequests);
}

TEST_F(BatchQueueWaitTest, CloseEndsTheWaitForMoreTasks) {
  MakeQueue({.batch_timeout = kNeverInThisTest});
  Push(a_, 1);
  StartWaitingRunners(1);
  queue_->Close();
  const std::optional<Batch>& batch = Join()[0];
  EXPECT_THAT(Tokens(*batch), ElementsAre(1));
  EXPECT_EQ(batch->close_reason, BatchCloseReason::kQueueDrained);
}

TEST_F(BatchQueueWaitTest, WakesWhenTheTimeoutHasPassed) {
  constexpr absl::Duration kTimeout = absl::Milliseconds(5);
  queue_.emplace(BatchQueueOptions{.limits = {.batch_timeout = kTimeout}}, absl::Now);
  Push(a_, 1);
  const std::optional<Batch> batch = queue_->Pop();
  EXPECT_THAT(Tokens(*batch), ElementsAre(1));
  EXPECT_EQ(batch->close_reason, BatchCloseReason::kTimeout);
  EXPECT_GE(batch->close_time - batch->tasks[0]->enqueue_time, kTimeout);
}

TEST_F(BatchQueueWaitTest, ARunnerThatTakesABatchWakesAnotherForTheRest) {
  MakeQueue({.batch_timeout = kNeverInThisTest});
  Push(a_, 1);
  Push(b_, 2);
  StartWaitingRunners(2);
  clock_.Advance(kNeverInThisTest);
  // Both batches are ready now, but this push wakes only one runner.
  Push(a_, 3);
  for (const std::optional<Batch>& batch : Join()) EXPECT_TRUE(batch);
  EXPECT_EQ(queue_->stats().queued_requests, 0);
}

TEST_F(BatchQueueWaitTest, ForgetsServedTokensOnceARunnerIsIdle) {
  MakeQueue({});
  Push(a_, 1000);
  queue_->Pop();
  StartWaitingRunners(1);
  Push(MakeWeightSet("c"), 1);
  Join();
  Push(a_, 1);
  Push(b_, 1);
  EXPECT_EQ(queue_->Pop()->weight_set, a_);
}

}  // namespace
}  // namespace attention::server
