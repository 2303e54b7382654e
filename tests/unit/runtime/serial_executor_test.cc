#include "server/runtime/serial_executor.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "tests/testing/matchers.h"

namespace attention::server {
namespace {

using ::attention::test::IsOk;
using ::attention::test::StatusIs;

absl::Status RunOn(SerialExecutor& executor, absl::AnyInvocable<void()> function) { return executor.Run(function); }

TEST(SerialExecutorTest, RunsInOrder) {
  std::vector<int> ran;
  {
    SerialExecutor executor(100);
    for (int i = 0; i < 50; ++i) ASSERT_THAT(RunOn(executor, [&ran, i] { ran.push_back(i); }), IsOk());
  }
  ASSERT_EQ(ran.size(), 50u);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(ran[i], i);
}

TEST(SerialExecutorTest, RejectsWhenTooManyWait) {
  absl::Notification started, release;
  int ran = 0;
  {
    SerialExecutor executor(2);
    ASSERT_THAT(RunOn(executor,
                      [&] {
                        started.Notify();
                        release.WaitForNotification();
                      }),
                IsOk());
    started.WaitForNotification();
    EXPECT_THAT(RunOn(executor, [&ran] { ++ran; }), IsOk());
    EXPECT_THAT(RunOn(executor, [&ran] { ++ran; }), IsOk());
    absl::AnyInvocable<void()> third = [&ran] { ran += 10; };
    EXPECT_THAT(executor.Run(third),
                StatusIs(absl::StatusCode::kUnavailable, "queue: expected fewer than 2 waiting calls, got 2"));
    EXPECT_TRUE(third) << "the caller keeps a rejected function";
    release.Notify();
  }
  EXPECT_EQ(ran, 2) << "accepted functions run before the executor is destroyed";
}

TEST(SerialExecutorTest, RunAlwaysIgnoresTheLimit) {
  absl::Notification started, release;
  std::vector<int> ran;
  {
    SerialExecutor executor(1);
    executor.RunAlways([&] {
      started.Notify();
      release.WaitForNotification();
    });
    started.WaitForNotification();
    for (int i = 0; i < 3; ++i) executor.RunAlways([&ran, i] { ran.push_back(i); });
    EXPECT_THAT(RunOn(executor, [&ran] { ran.push_back(3); }), IsOk()) << "functions of RunAlways do not count";
    EXPECT_THAT(RunOn(executor, [&ran] { ran.push_back(4); }),
                StatusIs(absl::StatusCode::kUnavailable, "queue: expected fewer than 1 waiting calls, got 1"));
    release.Notify();
  }
  EXPECT_EQ(ran, (std::vector<int>{0, 1, 2, 3}));
}

int NiceOfThisThread() { return getpriority(PRIO_PROCESS, static_cast<id_t>(gettid())); }

TEST(SerialExecutorTest, SetsTheNiceValueOfItsThreadOnly) {
  const int before = NiceOfThisThread();
  int nice = 0;
  {
    SerialExecutor executor(1, 19);
    ASSERT_THAT(RunOn(executor, [&] { nice = NiceOfThisThread(); }), IsOk());
  }
  EXPECT_EQ(nice, 19);
  EXPECT_EQ(NiceOfThisThread(), before);
}

TEST(PeriodicTaskTest, RunsRepeatedly) {
  SerialExecutor executor(1);
  absl::BlockingCounter runs(5);
  std::atomic<int> left = 5;
  const PeriodicTask task(&executor, absl::ZeroDuration(), [&] {
    if (left-- > 0) runs.DecrementCount();
  });
  runs.Wait();
}

TEST(PeriodicTaskTest, WaitsForAStartedRun) {
  SerialExecutor executor(1);
  absl::Notification started, release;
  std::atomic<int> starts = 0, ends = 0;
  auto task = std::make_unique<PeriodicTask>(&executor, absl::ZeroDuration(), [&] {
    if (starts++ == 0) started.Notify();
    release.WaitForNotification();
    ++ends;
  });
  started.WaitForNotification();
  int starts_at_end = -1;
  std::thread stopper([&] {
    task.reset();
    starts_at_end = starts;
  });
  release.Notify();
  stopper.join();
  EXPECT_EQ(ends, starts_at_end);
  EXPECT_EQ(starts, starts_at_end);
}

TEST(PeriodicTaskTest, EndsWithoutWaitingForTheInterval) {
  SerialExecutor executor(1);
  bool ran = false;
  {
    const PeriodicTask task(&executor, absl::InfiniteDuration(), [&] { ran = true; });
  }
  EXPECT_FALSE(ran);
}

}  // namespace
}  // namespace attention::server
