#include "server/runtime/periodic_task.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"

namespace attention::server {
namespace {

TEST(PeriodicTaskTest, RunsAgainAndAgain) {
  SerialExecutor executor(1);
  absl::BlockingCounter runs(5);
  std::atomic<int> left = 5;
  const PeriodicTask task(&executor, absl::ZeroDuration(), [&] {
    if (left-- > 0) runs.DecrementCount();
  });
  runs.Wait();
}

TEST(PeriodicTaskTest, WaitsForTheRunThatIsBegun) {
  SerialExecutor executor(1);
  absl::Notification begun, release;
  std::atomic<int> begins = 0, ends = 0;
  auto task = std::make_unique<PeriodicTask>(&executor, absl::ZeroDuration(), [&] {
    if (begins++ == 0) begun.Notify();
    release.WaitForNotification();
    ++ends;
  });
  begun.WaitForNotification();
  int at_the_end = -1;
  std::thread stopper([&] {
    task.reset();
    at_the_end = begins;
  });
  release.Notify();
  stopper.join();
  EXPECT_EQ(ends, at_the_end);
  EXPECT_EQ(begins, at_the_end);
}

TEST(PeriodicTaskTest, EndsWithoutWaitingForItsTime) {
  SerialExecutor executor(1);
  bool ran = false;
  {
    const PeriodicTask task(&executor, absl::InfiniteDuration(), [&] { ran = true; });
  }
  EXPECT_FALSE(ran);
}

}  // namespace
}  // namespace attention::server
