#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "server/batching/batch_queue.h"
#include "server/batching/batch_runner.h"
#include "tests/testing/server/batching_fakes.h"

namespace attention::server {
namespace {

using test::kSmallCost;
using test::MakeTask;
using test::MakeWeightSet;

constexpr int kProducers = 6;
constexpr int kTasks = 2000;  // for each producer
constexpr int64_t kMaxQueued = 32;

// What a producer knows about one of its tasks.
struct Pushed {
  bool admitted = false;
  std::shared_ptr<StopToken> stop;
  std::atomic<int> runs = 0;
  std::atomic<absl::StatusCode> code = absl::StatusCode::kUnknown;
};

// Varies priority, size and weight set. Every fifth task expires soon.
std::unique_ptr<Task> MakeTaskOf(int i, const std::vector<std::shared_ptr<const WeightSet>>& weight_sets,
                                 Pushed& entry) {
  const absl::Duration patience = i % 5 == 0 ? absl::Microseconds(i % 200) : absl::InfiniteDuration();
  entry.stop = std::make_shared<StopToken>(SteadyNow() + patience);
  std::unique_ptr<Task> task = MakeTask({.weight_set = weight_sets[i % weight_sets.size()],
                                         .tokens = i % 7,
                                         .priority = i % 2,
                                         .cost = i % 3 == 0 ? 2 * kSmallCost : 1,
                                         .stop = entry.stop});
  task->done = [&entry](const absl::Status& status, const TaskReport&) {
    entry.code = status.code();
    ++entry.runs;
  };
  return task;
}

// Pushes one task after the other, with retries while the queue is full, and cancels every eleventh task, whether it is
// queued, running or done by then.
void Produce(BatchQueue& queue, std::vector<Pushed>& pushed) {
  const std::vector<std::shared_ptr<const WeightSet>> weight_sets = {MakeWeightSet("a"), MakeWeightSet("b")};
  for (int i = 0; i < kTasks; ++i) {
    std::unique_ptr<Task> task = MakeTaskOf(i, weight_sets, pushed[i]);
    absl::Status status = queue.Push(task);
    for (; absl::IsUnavailable(status); status = queue.Push(task)) std::this_thread::yield();
    pushed[i].admitted = status.ok();
    if (i % 11 != 0) continue;
    pushed[i].stop->Cancel();
    queue.Sweep();
    EXPECT_LE(queue.stats().queued_requests, kMaxQueued);
  }
}

TEST(BatchingStressTest, EveryAdmittedTaskIsDoneExactlyOnce) {
  BatchQueue queue({.max_queued_requests = kMaxQueued, .limits = {.max_batch_tokens = 16, .max_batch_requests = 4}});
  std::atomic<int64_t> computed = 0;
  std::optional<BatchRunner> runner;
  runner.emplace(
      &queue,
      [&](const WeightSet&, absl::Span<const AttentionCall* const> calls) {
        computed += static_cast<int64_t>(calls.size());
        return absl::OkStatus();
      },
      BatchRunnerOptions{.num_threads = 2, .num_small_threads = 1});

  std::vector<std::vector<Pushed>> pushed;
  for (int p = 0; p < kProducers; ++p) pushed.emplace_back(kTasks);
  std::vector<std::thread> producers;
  for (int p = 0; p < kProducers; ++p) producers.emplace_back([&, p] { Produce(queue, pushed[p]); });
  for (std::thread& producer : producers) producer.join();
  queue.Close();
  runner.reset();

  std::map<absl::StatusCode, int64_t> ended;
  for (const std::vector<Pushed>& of_producer : pushed) {
    for (const Pushed& entry : of_producer) {
      ASSERT_EQ(entry.runs, entry.admitted ? 1 : 0);
      if (entry.admitted) ++ended[entry.code];
    }
  }
  EXPECT_GT(ended[absl::StatusCode::kOk], 0);
  EXPECT_LE(ended[absl::StatusCode::kOk], computed) << "a task may be cancelled or expire while it is computed";
  ended.erase(absl::StatusCode::kOk);
  ended.erase(absl::StatusCode::kCancelled);
  ended.erase(absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(ended.empty()) << "an admitted task ended with another code";
  EXPECT_EQ(queue.stats().queued_requests, 0);
  EXPECT_EQ(queue.stats().queued_tokens, 0);
}

}  // namespace
}  // namespace attention::server
