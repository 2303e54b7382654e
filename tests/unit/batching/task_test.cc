#include "server/batching/task.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace attention::server {
namespace {

absl::Time At(int64_t milliseconds) { return absl::FromUnixSeconds(1'000'000) + absl::Milliseconds(milliseconds); }

struct AliveCase {
  std::string name;
  std::optional<int64_t> deadline_ms;
  std::optional<bool> cancelled;  // empty: no predicate
  absl::Status status;
};

class CheckAliveTest : public testing::TestWithParam<AliveCase> {};

TEST_P(CheckAliveTest, ReturnsTheStatusToEndTheTaskWith) {
  const AliveCase& c = GetParam();
  Task task;
  if (c.deadline_ms) task.deadline = At(*c.deadline_ms);
  if (c.cancelled) task.cancelled = [&c] { return *c.cancelled; };
  EXPECT_EQ(CheckAlive(task, At(100)), c.status);
}

INSTANTIATE_TEST_SUITE_P(Table, CheckAliveTest,
                         testing::ValuesIn(std::vector<AliveCase>{
                             {"OkWithoutDeadlineAndPredicate", std::nullopt, std::nullopt, absl::OkStatus()},
                             {"OkBeforeTheDeadline", 101, false, absl::OkStatus()},
                             {"ExpiredAtTheDeadline", 100, false,
                              absl::DeadlineExceededError("deadline: passed 0 before the computation began")},
                             {"ExpiredAfterTheDeadline", 80, std::nullopt,
                              absl::DeadlineExceededError("deadline: passed 20ms before the computation began")},
                             {"Cancelled", std::nullopt, true,
                              absl::CancelledError("call: cancelled before the computation began")},
                             {"ExpiredBeforeTheCancellationThatFollows", 80, true,
                              absl::DeadlineExceededError("deadline: passed 20ms before the computation began")},
                         }),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace attention::server
