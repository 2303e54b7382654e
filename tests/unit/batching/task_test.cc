#include "server/batching/task.h"

#include <gtest/gtest.h>

namespace attention::server {
namespace {

TEST(TaskTest, IsAliveWithoutAStopToken) {
  EXPECT_EQ(CheckAlive(Task(), absl::InfiniteFuture()), absl::OkStatus());
  EXPECT_EQ(Task().deadline(), absl::InfiniteFuture());
}

TEST(TaskTest, EndsWithTheStatusOfItsStopToken) {
  StopToken stop;
  Task task;
  task.call.stop = &stop;
  EXPECT_EQ(CheckAlive(task, SteadyNow()), absl::OkStatus());
  stop.Cancel();
  EXPECT_EQ(CheckAlive(task, SteadyNow()).code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace attention::server
