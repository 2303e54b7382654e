#include "server/runtime/serial_executor.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <vector>

#include "absl/synchronization/notification.h"
#include "tests/testing/matchers.h"

namespace attention::server {
namespace {

using ::attention::test::IsOk;
using ::attention::test::StatusIs;

absl::Status Give(SerialExecutor& executor, absl::AnyInvocable<void()> function) { return executor.Run(function); }

TEST(SerialExecutorTest, RunsInOrder) {
  std::vector<int> ran;
  {
    SerialExecutor executor(100);
    for (int i = 0; i < 50; ++i) ASSERT_THAT(Give(executor, [&ran, i] { ran.push_back(i); }), IsOk());
  }
  ASSERT_EQ(ran.size(), 50u);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(ran[i], i);
}

TEST(SerialExecutorTest, RefusesWhenTooManyWait) {
  absl::Notification started, release;
  int ran = 0;
  {
    SerialExecutor executor(2);
    ASSERT_THAT(Give(executor,
                     [&] {
                       started.Notify();
                       release.WaitForNotification();
                     }),
                IsOk());
    started.WaitForNotification();
    EXPECT_THAT(Give(executor, [&ran] { ++ran; }), IsOk());
    EXPECT_THAT(Give(executor, [&ran] { ++ran; }), IsOk());
    absl::AnyInvocable<void()> third = [&ran] { ran += 10; };
    EXPECT_THAT(executor.Run(third),
                StatusIs(absl::StatusCode::kUnavailable, "2 such calls wait already, wanted fewer than 2"));
    EXPECT_TRUE(third) << "what was refused stays with the caller";
    release.Notify();
  }
  EXPECT_EQ(ran, 2) << "what was taken runs before the end";
}

TEST(SerialExecutorTest, TakesTheStepsOfWhatWasAcceptedHoweverManyWait) {
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
    EXPECT_THAT(Give(executor, [&ran] { ran.push_back(3); }), IsOk()) << "the others do not count";
    EXPECT_THAT(Give(executor, [&ran] { ran.push_back(4); }),
                StatusIs(absl::StatusCode::kUnavailable, "1 such calls wait already, wanted fewer than 1"));
    release.Notify();
  }
  EXPECT_EQ(ran, (std::vector<int>{0, 1, 2, 3}));
}

int NiceOfThisThread() { return getpriority(PRIO_PROCESS, static_cast<id_t>(gettid())); }

TEST(SerialExecutorTest, LowersThePriorityOfItsOwnThreadAlone) {
  const int before = NiceOfThisThread();
  int nice = 0;
  {
    SerialExecutor executor(1, 19);
    ASSERT_THAT(Give(executor, [&] { nice = NiceOfThisThread(); }), IsOk());
  }
  EXPECT_EQ(nice, 19);
  EXPECT_EQ(NiceOfThisThread(), before);
}

}  // namespace
}  // namespace attention::server
