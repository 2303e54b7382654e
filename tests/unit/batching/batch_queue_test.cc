#include "server/batching/batch_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/admission/retry.h"
#include "tests/testing/server/batching_fakes.h"

namespace attention::server {
namespace {

using test::FakeClock;
using test::MakeTask;
using test::MakeWeightSet;
using test::Outcome;
using test::TaskOptions;
using test::Tokens;
using testing::ElementsAre;

class BatchQueueTest : public testing::Test {
 protected:
  BatchQueue& MakeQueue(const BatchQueueOptions& options) { return queue_.emplace(options, clock_.function()); }

  // Pushes to the queue, by default for weight set a.
  absl::Status Push(TaskOptions options, std::shared_ptr<Outcome> outcome = nullptr) {
    if (options.weight_set == nullptr) options.weight_set = a_;
    std::unique_ptr<Task> task = MakeTask(options, std::move(outcome));
    const absl::Status status = queue_->Push(task);
    EXPECT_EQ(task == nullptr, status.ok()) << "takes the task if and only if it returns OK";
    return status;
  }

  FakeClock clock_;
  const std::shared_ptr<const WeightSet> a_ = MakeWeightSet("a");
  const std::shared_ptr<const WeightSet> b_ = MakeWeightSet("b");
  std::optional<BatchQueue> queue_;
};

TEST_F(BatchQueueTest, ReturnsAllQueuedTasksAtOnce) {
  BatchQueue& queue = MakeQueue({});
  ASSERT_EQ(Push({.tokens = 1}), absl::OkStatus());
  clock_.Advance(absl::Milliseconds(3));
  ASSERT_EQ(Push({.tokens = 2}), absl::OkStatus());
  const std::optional<Batch> batch = queue.Pop();
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->weight_set, a_);
  EXPECT_THAT(Tokens(*batch), ElementsAre(1, 2));
  EXPECT_EQ(batch->close_reason, BatchCloseReason::kQueueDrained);
  EXPECT_EQ(batch->close_time - batch->tasks[0]->enqueue_time, absl::Milliseconds(3));
  EXPECT_EQ(batch->close_time - batch->tasks[1]->enqueue_time, absl::ZeroDuration());
}

TEST_F(BatchQueueTest, OrdersByPriorityThenArrival) {
  BatchQueue& queue = MakeQueue({.limits = {.max_batch_requests = 2}});
  ASSERT_EQ(Push({.tokens = 1}), absl::OkStatus());
  ASSERT_EQ(Push({.tokens = 2, .priority = 5}), absl::OkStatus());
  ASSERT_EQ(Push({.tokens = 3}), absl::OkStatus());
  ASSERT_EQ(Push({.tokens = 4, .priority = 5}), absl::OkStatus());
  EXPECT_THAT(Tokens(*queue.Pop()), ElementsAre(2, 4));
  EXPECT_THAT(Tokens(*queue.Pop()), ElementsAre(1, 3));
}

TEST_F(BatchQueueTest, ServesTwoWeightSetsFairly) {
  BatchQueue& queue = MakeQueue({.limits = {.max_batch_tokens = 10}});
  for (int i = 0; i < 6; ++i) ASSERT_EQ(Push({.weight_set = a_, .tokens = 5}), absl::OkStatus());
  for (int i = 0; i < 2; ++i) ASSERT_EQ(Push({.weight_set = b_, .tokens = 5}), absl::OkStatus());
  std::vector<std::string> names;
  for (int i = 0; i < 4; ++i) names.push_back(queue.Pop()->weight_set->name);
  EXPECT_THAT(names, ElementsAre("a", "b", "a", "a"));
}

TEST_F(BatchQueueTest, RejectsPushWhenFull) {
  BatchQueue& queue = MakeQueue({.max_queued_requests = 2});
  int taken = 0;
  for (int i = 0; i < 20; ++i) {
    const absl::Status status = Push({});
    taken += status.ok();
    if (!status.ok()) {
      EXPECT_EQ(status.message(), "queue: expected fewer than 2 waiting requests (--max-queued-requests), got 2");
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
      EXPECT_GE(RetryAfter(status), absl::Milliseconds(5));
    }
  }
  EXPECT_EQ(taken, 2);
  queue.Pop();  // running tasks do not count
  EXPECT_EQ(Push({}), absl::OkStatus());
}

TEST_F(BatchQueueTest, RejectsADeadlineThatHasPassed) {
  BatchQueue& queue = MakeQueue({});
  EXPECT_EQ(Push({.deadline = clock_.now() - absl::Milliseconds(4)}),
            absl::DeadlineExceededError("deadline: passed 4ms before the computation ended"));
  EXPECT_EQ(queue.stats().queued_requests, 0);
}

TEST_F(BatchQueueTest, RejectsACallThatIsAlreadyCancelled) {
  BatchQueue& queue = MakeQueue({});
  const auto stop = std::make_shared<StopToken>();
  stop->Cancel();
  EXPECT_EQ(Push({.stop = stop}).code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(queue.stats().queued_requests, 0);
}

TEST_F(BatchQueueTest, CountsQueuedTasks) {
  BatchQueue& queue = MakeQueue({.limits = {.max_batch_requests = 1}});
  ASSERT_EQ(Push({.tokens = 3}), absl::OkStatus());
  ASSERT_EQ(Push({.tokens = 4}), absl::OkStatus());
  EXPECT_EQ(queue.stats().queued_requests, 2);
  EXPECT_EQ(queue.stats().queued_tokens, 7);
  const std::optional<Batch> running = queue.Pop();
  EXPECT_EQ(queue.stats().queued_requests, 1);
  EXPECT_EQ(queue.stats().queued_tokens, 4);
}

TEST_F(BatchQueueTest, SweepEndsDeadTasksAtOnce) {
  BatchQueue& queue = MakeQueue({});
  const auto stop = std::make_shared<StopToken>();
  auto lives = std::make_shared<Outcome>(), expires = std::make_shared<Outcome>(), leaves = std::make_shared<Outcome>();
  ASSERT_EQ(Push({.tokens = 1}, lives), absl::OkStatus());
  ASSERT_EQ(Push({.tokens = 2, .deadline = clock_.now() + absl::Seconds(1)}, expires), absl::OkStatus());
  ASSERT_EQ(Push({.tokens = 4, .stop = stop}, leaves), absl::OkStatus());
  EXPECT_EQ(queue.Sweep(), 0);

  stop->Cancel();
  EXPECT_EQ(queue.Sweep(), 1);
  EXPECT_EQ(leaves->status(), absl::CancelledError("call: cancelled before the computation ended"));
  EXPECT_EQ(leaves->report().batch_requests, 0);

  clock_.Advance(absl::Seconds(2));
  EXPECT_EQ(queue.Sweep(), 1);
  EXPECT_EQ(expires->status(), absl::DeadlineExceededError("deadline: passed 1s before the computation ended"));
  EXPECT_EQ(expires->report().queue_time, absl::Seconds(2));

  EXPECT_EQ(lives->runs(), 0);
  EXPECT_EQ(queue.stats().queued_requests, 1);
  EXPECT_THAT(Tokens(*queue.Pop()), ElementsAre(1));
}

TEST_F(BatchQueueTest, ReturnsNoDeadTask) {
  BatchQueue& queue = MakeQueue({});
  auto expires = std::make_shared<Outcome>();
  ASSERT_EQ(Push({.tokens = 1, .deadline = clock_.now() + absl::Seconds(1)}, expires), absl::OkStatus());
  ASSERT_EQ(Push({.tokens = 2}), absl::OkStatus());
  clock_.Advance(absl::Seconds(1));
  EXPECT_THAT(Tokens(*queue.Pop()), ElementsAre(2));
  EXPECT_EQ(expires->status().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(BatchQueueTest, AFullQueueDropsItsDeadTasks) {
  BatchQueue& queue = MakeQueue({.max_queued_requests = 1});
  auto expires = std::make_shared<Outcome>();
  ASSERT_EQ(Push({.deadline = clock_.now() + absl::Seconds(1)}, expires), absl::OkStatus());
  EXPECT_EQ(Push({}).code(), absl::StatusCode::kUnavailable);
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(Push({}), absl::OkStatus());
  EXPECT_EQ(expires->runs(), 1);
  EXPECT_EQ(queue.stats().queued_requests, 1);
}

TEST_F(BatchQueueTest, AFullQueueIsSweptOnceAMillisecond) {
  MakeQueue({.max_queued_requests = 1});
  const auto stop = std::make_shared<StopToken>();
  ASSERT_EQ(Push({.stop = stop}), absl::OkStatus());
  EXPECT_EQ(Push({}).code(), absl::StatusCode::kUnavailable);
  stop->Cancel();
  EXPECT_EQ(Push({}).code(), absl::StatusCode::kUnavailable) << "swept a moment ago";
  clock_.Advance(absl::Milliseconds(1));
  EXPECT_EQ(Push({}), absl::OkStatus());
}

TEST_F(BatchQueueTest, DoneMayCallTheQueue) {
  BatchQueue& queue = MakeQueue({});
  const auto stop = std::make_shared<StopToken>();
  std::unique_ptr<Task> task = MakeTask({.weight_set = a_, .stop = stop});
  absl::Status status_of_another;
  task->done = [&](const absl::Status&, const TaskReport&) { status_of_another = Push({.tokens = 9}); };
  ASSERT_EQ(queue.Push(task), absl::OkStatus());
  stop->Cancel();
  EXPECT_EQ(queue.Sweep(), 1);
  EXPECT_EQ(status_of_another, absl::OkStatus());
  EXPECT_THAT(Tokens(*queue.Pop()), ElementsAre(9));
}

TEST_F(BatchQueueTest, RejectsPushAfterClose) {
  BatchQueue& queue = MakeQueue({});
  queue.Close();
  queue.Close();
  EXPECT_EQ(Push({}), absl::UnavailableError("server: the server is stopping"));
}

TEST_F(BatchQueueTest, ReturnsAdmittedTasksAfterClose) {
  BatchQueue& queue = MakeQueue({.limits = {.max_batch_requests = 2, .batch_timeout = absl::Hours(1)}});
  for (int64_t tokens : {1, 2, 3}) ASSERT_EQ(Push({.tokens = tokens}), absl::OkStatus());
  queue.Close();
  EXPECT_THAT(Tokens(*queue.Pop()), ElementsAre(1, 2));
  const std::optional<Batch> last = queue.Pop();
  EXPECT_THAT(Tokens(*last), ElementsAre(3));
  EXPECT_EQ(last->close_reason, BatchCloseReason::kQueueDrained);
  EXPECT_FALSE(queue.Pop());
  EXPECT_FALSE(queue.Pop());
}

TEST_F(BatchQueueTest, ClosesABatchHalfwayToADeadline) {
  BatchQueue& queue = MakeQueue({.limits = {.batch_timeout = absl::Milliseconds(500)}});
  ASSERT_EQ(Push({.tokens = 1, .deadline = clock_.now() + absl::Milliseconds(200)}), absl::OkStatus());
  clock_.Advance(absl::Milliseconds(100));
  const std::optional<Batch> batch = queue.Pop();
  EXPECT_THAT(Tokens(*batch), ElementsAre(1));
  EXPECT_EQ(batch->close_reason, BatchCloseReason::kTimeout);
}

// Computes a batch that tells the queue that a unit of cost takes a millisecond.
void TeachRate(BatchQueue& queue, FakeClock& clock) {
  const std::optional<Batch> batch = queue.Pop();
  clock.Advance(absl::Milliseconds(batch->tasks.front()->call.cost));
  queue.Finished(*batch, batch->tasks.front()->call.cost);
}

TEST_F(BatchQueueTest, RejectsWhatCannotMeetItsDeadline) {
  BatchQueue& queue = MakeQueue({});
  ASSERT_EQ(Push({.cost = 100}), absl::OkStatus());
  TeachRate(queue, clock_);
  EXPECT_EQ(Push({.deadline = clock_.now() + absl::Milliseconds(1), .cost = 50}), absl::OkStatus())
      << "nothing is before it, so it may correct the rate";
  const absl::Status rejected = Push({.deadline = clock_.now() + absl::Milliseconds(79), .cost = 30});
  EXPECT_EQ(rejected.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(rejected.message(), "deadline: expected at least 80ms for the queue and the computation, got 79ms");
  EXPECT_EQ(RetryAfter(rejected), kNeverRetry);
  EXPECT_EQ(Push({.deadline = clock_.now() + absl::Milliseconds(80), .cost = 30}), absl::OkStatus());
}

TEST_F(BatchQueueTest, RejectsWhatWouldWaitTooLong) {
  BatchQueue& queue = MakeQueue({.max_queue_delay = absl::Milliseconds(60)});
  ASSERT_EQ(Push({.cost = 100}), absl::OkStatus());
  TeachRate(queue, clock_);
  ASSERT_EQ(Push({.cost = 60}), absl::OkStatus());
  ASSERT_EQ(Push({.cost = 20}), absl::OkStatus());
  const absl::Status rejected = Push({.cost = 1});
  EXPECT_EQ(rejected.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(rejected.message(), "queue: expected a wait of at most 60ms (--max-queue-delay), got about 80ms");
  EXPECT_GE(RetryAfter(rejected), absl::Milliseconds(20));
}

TEST_F(BatchQueueTest, CountsWhatIsBeingComputed) {
  BatchQueue& queue = MakeQueue({});
  ASSERT_EQ(Push({.cost = 100}), absl::OkStatus());
  TeachRate(queue, clock_);
  ASSERT_EQ(Push({.cost = 40}), absl::OkStatus());
  const std::optional<Batch> running = queue.Pop();
  clock_.Advance(absl::Milliseconds(10));
  EXPECT_EQ(Push({.deadline = clock_.now() + absl::Milliseconds(34), .cost = 5}).code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(Push({.deadline = clock_.now() + absl::Milliseconds(35), .cost = 5}), absl::OkStatus());
  queue.Finished(*running, 40);
}

TEST_F(BatchQueueTest, DropsAQueuedTaskThatCanNoLongerMeetItsDeadline) {
  BatchQueue& queue = MakeQueue({.limits = {.max_batch_requests = 1}});
  ASSERT_EQ(Push({.cost = 100}), absl::OkStatus());
  TeachRate(queue, clock_);
  auto late = std::make_shared<Outcome>();
  ASSERT_EQ(Push({.tokens = 1}), absl::OkStatus());
  ASSERT_EQ(Push({.tokens = 2, .deadline = clock_.now() + absl::Milliseconds(50), .cost = 40}, late), absl::OkStatus());
  clock_.Advance(absl::Milliseconds(20));
  EXPECT_THAT(Tokens(*queue.Pop()), ElementsAre(1));
  EXPECT_EQ(late->status(),
            absl::DeadlineExceededError("deadline: expected at least 40ms for the computation, got 30ms"));
}

TEST_F(BatchQueueTest, EndsQueuedTasksWhenDestroyed) {
  MakeQueue({});
  auto outcome = std::make_shared<Outcome>();
  ASSERT_EQ(Push({}, outcome), absl::OkStatus());
  queue_.reset();
  EXPECT_EQ(outcome->runs(), 1);
  EXPECT_EQ(outcome->status(), absl::UnavailableError("server: the server is stopping"));
}

}  // namespace
}  // namespace attention::server
