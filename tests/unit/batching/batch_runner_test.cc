#include "server/batching/batch_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "tests/testing/server/batching_fakes.h"

namespace attention::server {
namespace {

using test::FakeClock;
using test::kSmallCost;
using test::MakeTask;
using test::MakeWeightSet;
using test::Outcome;
using test::TaskOptions;
using testing::ElementsAre;

using Calls = absl::Span<const AttentionCall* const>;

// Records the tokens of the calls of each computed batch. Thread-safe.
class ComputeLog {
 public:
  void Add(Calls calls) {
    std::vector<int64_t> tokens;
    for (const AttentionCall* call : calls) tokens.push_back(call->tokens);
    absl::MutexLock lock(&mu_);
    batches_.push_back(std::move(tokens));
  }
  std::vector<std::vector<int64_t>> batches() const {
    absl::MutexLock lock(&mu_);
    return batches_;
  }

 private:
  mutable absl::Mutex mu_;
  std::vector<std::vector<int64_t>> batches_ ABSL_GUARDED_BY(mu_);
};

class BatchRunnerTest : public testing::Test {
 protected:
  void TearDown() override { Stop(); }

  void MakeQueue(const BatchQueueOptions& options = {}) { queue_.emplace(options, clock_.function()); }
  void Start(ComputeFn compute, int num_threads = 1, int num_small_threads = 0) {
    runner_.emplace(
        &*queue_, std::move(compute),
        BatchRunnerOptions{
            .num_threads = num_threads, .num_small_threads = num_small_threads, .clock = clock_.function()});
  }
  // Waits until all pushed tasks are done.
  void Stop() {
    if (queue_) queue_->Close();
    runner_.reset();
  }

  // Records the batch and computes nothing.
  ComputeFn Logging() {
    return [this](const WeightSet&, Calls calls) {
      log_.Add(calls);
      return absl::OkStatus();
    };
  }
  // Like Logging, but blocks until `open_` is notified: every batch, or only those that begin with a task of
  // `only_tokens`.
  ComputeFn Blocking(std::optional<int64_t> only_tokens = std::nullopt) {
    return [this, only_tokens](const WeightSet&, Calls calls) {
      log_.Add(calls);
      if (only_tokens && calls.front()->tokens != *only_tokens) return absl::OkStatus();
      if (!blocked_.HasBeenNotified()) blocked_.Notify();
      open_.WaitForNotification();
      return absl::OkStatus();
    };
  }

  absl::Status TryPush(TaskOptions options, std::shared_ptr<Outcome> outcome = nullptr) {
    if (options.weight_set == nullptr) options.weight_set = weight_set_;
    std::unique_ptr<Task> task = MakeTask(options, std::move(outcome));
    return queue_->Push(task);
  }
  std::shared_ptr<Outcome> Push(TaskOptions options) {
    auto outcome = std::make_shared<Outcome>();
    EXPECT_EQ(TryPush(std::move(options), outcome), absl::OkStatus());
    return outcome;
  }

  FakeClock clock_;
  ComputeLog log_;
  absl::Notification blocked_, open_;  // blocked_: one runner thread is computing a batch
  const std::shared_ptr<const WeightSet> weight_set_ = MakeWeightSet("a");
  std::optional<BatchQueue> queue_;
  std::optional<BatchRunner> runner_;
};

TEST_F(BatchRunnerTest, ComputesABatchAndReportsIt) {
  MakeQueue();
  const auto first = Push({.tokens = 2});
  clock_.Advance(absl::Milliseconds(3));
  const auto second = Push({.tokens = 5});
  const WeightSet* computed_with = nullptr;
  Start([&](const WeightSet& weight_set, Calls calls) {
    log_.Add(calls);
    computed_with = &weight_set;
    clock_.Advance(absl::Milliseconds(7));
    return absl::OkStatus();
  });
  first->Await();
  second->Await();
  EXPECT_THAT(log_.batches(), ElementsAre(ElementsAre(2, 5)));
  EXPECT_EQ(computed_with, weight_set_.get());
  EXPECT_EQ(first->status(), absl::OkStatus());
  EXPECT_EQ(second->status(), absl::OkStatus());
  EXPECT_EQ(first->report().queue_time, absl::Milliseconds(3));
  EXPECT_EQ(second->report().queue_time, absl::ZeroDuration());
  for (const auto& outcome : {first, second}) {
    EXPECT_EQ(outcome->report().compute_time, absl::Milliseconds(7));
    EXPECT_EQ(outcome->report().batch_requests, 2);
    EXPECT_EQ(outcome->report().batch_tokens, 7);
    EXPECT_EQ(outcome->report().batch_close_reason, BatchCloseReason::kQueueDrained);
  }
}

TEST_F(BatchRunnerTest, EndsAQueuedTaskAtItsDeadlineWhileAnotherRuns) {
  MakeQueue();
  Start(Blocking());
  const auto running = Push({.tokens = 1});
  blocked_.WaitForNotification();
  const auto waiting = Push({.tokens = 2, .deadline = clock_.now() + absl::Milliseconds(100)});
  EXPECT_EQ(TryPush({.tokens = 3, .deadline = clock_.now() - absl::Milliseconds(1)}).code(),
            absl::StatusCode::kDeadlineExceeded);

  clock_.Advance(absl::Milliseconds(100));
  queue_->Sweep();
  EXPECT_EQ(waiting->status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(running->runs(), 0);

  open_.Notify();
  running->Await();
  EXPECT_EQ(running->status(), absl::OkStatus());
  EXPECT_THAT(log_.batches(), ElementsAre(ElementsAre(1)));
}

TEST_F(BatchRunnerTest, ComputesATaskInTimeForItsDeadlineDespiteTheTimeout) {
  MakeQueue({.limits = {.batch_timeout = absl::Milliseconds(500)}});
  Start(Logging());
  const auto outcome = Push({.deadline = clock_.now() + absl::Milliseconds(200)});
  clock_.Advance(absl::Milliseconds(100));
  outcome->Await();
  EXPECT_EQ(outcome->status(), absl::OkStatus());
  EXPECT_EQ(outcome->report().queue_time, absl::Milliseconds(100));
  EXPECT_EQ(outcome->report().batch_close_reason, BatchCloseReason::kTimeout);
}

TEST_F(BatchRunnerTest, EndsATaskThatIsCancelledDuringItsComputation) {
  MakeQueue();
  const auto stop = std::make_shared<StopToken>();
  const auto cancelled = Push({.tokens = 1, .stop = stop});
  const auto remaining = Push({.tokens = 2});
  Start(Blocking());
  blocked_.WaitForNotification();
  stop->Cancel();
  open_.Notify();
  Stop();
  EXPECT_EQ(cancelled->status(), absl::CancelledError("call: cancelled before the computation ended"));
  EXPECT_EQ(cancelled->runs(), 1);
  EXPECT_EQ(remaining->status(), absl::OkStatus());
  EXPECT_THAT(log_.batches(), ElementsAre(ElementsAre(1, 2)));
}

TEST_F(BatchRunnerTest, EndsATaskWhoseDeadlinePassesDuringItsComputation) {
  MakeQueue();
  const auto expired = Push({.deadline = clock_.now() + absl::Milliseconds(10)});
  Start(Blocking());
  blocked_.WaitForNotification();
  clock_.Advance(absl::Milliseconds(12));
  open_.Notify();
  Stop();
  EXPECT_EQ(expired->status(), absl::DeadlineExceededError("deadline: passed 2ms before the computation ended"));
}

TEST_F(BatchRunnerTest, ComputesSmallTasksBesideAnExpensiveOne) {
  MakeQueue();
  Start(Blocking(/*only_tokens=*/7), /*num_threads=*/1, /*num_small_threads=*/1);
  const auto expensive = Push({.tokens = 7, .cost = 10 * kSmallCost});
  blocked_.WaitForNotification();
  const auto small = Push({.tokens = 1});
  small->Await();
  EXPECT_EQ(small->status(), absl::OkStatus());
  EXPECT_EQ(expensive->runs(), 0);
  open_.Notify();
  Stop();
  EXPECT_EQ(expensive->status(), absl::OkStatus());
}

TEST_F(BatchRunnerTest, ComputesWhatTheFullQueueAccepted) {
  MakeQueue({.max_queued_requests = 2, .limits = {.max_batch_tokens = 4}});
  Start(Blocking());
  const auto running = Push({.tokens = 1});
  blocked_.WaitForNotification();
  const auto second = Push({.tokens = 1}), third = Push({.tokens = 1});
  for (int i = 0; i < 17; ++i) {
    EXPECT_EQ(TryPush({}).message(), "queue: expected fewer than 2 waiting requests (--max-queued-requests), got 2");
  }
  open_.Notify();
  Stop();
  for (const auto& outcome : {running, second, third}) EXPECT_EQ(outcome->status(), absl::OkStatus());
  EXPECT_THAT(log_.batches(), ElementsAre(ElementsAre(1), ElementsAre(1, 1)));
}

TEST_F(BatchRunnerTest, ComputesARequestLargerThanABatchAlone) {
  MakeQueue({.limits = {.max_batch_tokens = 4}});
  const auto large = Push({.tokens = 6});
  const auto first = Push({.tokens = 3}), second = Push({.tokens = 3});
  Start(Logging());
  Stop();
  for (const auto& outcome : {large, first, second}) EXPECT_EQ(outcome->status(), absl::OkStatus());
  EXPECT_THAT(log_.batches(), ElementsAre(ElementsAre(6), ElementsAre(3), ElementsAre(3)));
  EXPECT_EQ(large->report().batch_close_reason, BatchCloseReason::kMaxTokens);
}

TEST_F(BatchRunnerTest, ComputesTasksAdmittedBeforeClose) {
  MakeQueue({.limits = {.max_batch_requests = 1}});
  Start(Blocking());
  const auto first = Push({.tokens = 1}), second = Push({.tokens = 2}), third = Push({.tokens = 3});
  blocked_.WaitForNotification();
  queue_->Close();
  EXPECT_EQ(TryPush({}), absl::UnavailableError("server: the server is stopping"));
  open_.Notify();
  Stop();
  for (const auto& outcome : {first, second, third}) EXPECT_EQ(outcome->status(), absl::OkStatus());
  EXPECT_THAT(log_.batches(), ElementsAre(ElementsAre(1), ElementsAre(2), ElementsAre(3)));
}

TEST_F(BatchRunnerTest, RunsOneBatchPerThread) {
  MakeQueue();
  absl::BlockingCounter both(2);
  const auto first = Push({.weight_set = MakeWeightSet("a")}), second = Push({.weight_set = MakeWeightSet("b")});
  Start(
      [&](const WeightSet&, Calls) {
        both.DecrementCount();
        open_.WaitForNotification();
        return absl::OkStatus();
      },
      2);
  both.Wait();
  open_.Notify();
  Stop();
  EXPECT_EQ(first->status(), absl::OkStatus());
  EXPECT_EQ(second->status(), absl::OkStatus());
}

}  // namespace
}  // namespace attention::server
