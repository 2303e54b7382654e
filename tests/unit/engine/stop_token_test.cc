#include "server/engine/stop_token.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace attention::server {
namespace {

absl::Time At(int64_t milliseconds) { return absl::FromUnixSeconds(1'000'000) + absl::Milliseconds(milliseconds); }

struct Case {
  std::string name;
  std::optional<int64_t> deadline_ms;
  bool cancelled = false;
  bool server_stops = false;
  absl::Status status;
};

class StopTokenTest : public testing::TestWithParam<Case> {};

TEST_P(StopTokenTest, ReturnsTheStatusToEndTheCallWith) {
  const Case& c = GetParam();
  const std::atomic<bool> server_stops = c.server_stops;
  StopToken stop(c.deadline_ms ? At(*c.deadline_ms) : absl::InfiniteFuture(), &server_stops);
  if (c.cancelled) stop.Cancel();
  EXPECT_EQ(stop.Check(At(100)), c.status);
}

const auto kExpired = absl::DeadlineExceededError("deadline: passed 20ms before the computation ended");

INSTANTIATE_TEST_SUITE_P(Table, StopTokenTest,
                         testing::ValuesIn(std::vector<Case>{
                             {"OkWithoutADeadline", std::nullopt, false, false, absl::OkStatus()},
                             {"OkBeforeTheDeadline", 101, false, false, absl::OkStatus()},
                             {"ExpiredAtTheDeadline", 100, false, false,
                              absl::DeadlineExceededError("deadline: passed 0 before the computation ended")},
                             {"ExpiredAfterTheDeadline", 80, false, false, kExpired},
                             {"Cancelled", std::nullopt, true, false,
                              absl::CancelledError("call: cancelled before the computation ended")},
                             {"ExpiredBeforeTheCancellationThatFollows", 80, true, false, kExpired},
                             {"ServerStops", 101, false, true,
                              absl::UnavailableError("server: the grace time ended before the computation")},
                         }),
                         [](const auto& info) { return info.param.name; });

TEST(ShouldStopTest, FollowsCancellationServerAndDeadline) {
  std::atomic<bool> server_stops = false;
  StopToken cancelled;
  StopToken of_server(absl::InfiniteFuture(), &server_stops);
  EXPECT_FALSE(cancelled.ShouldStop());
  EXPECT_FALSE(of_server.ShouldStop());
  cancelled.Cancel();
  server_stops = true;
  EXPECT_TRUE(cancelled.ShouldStop());
  EXPECT_TRUE(of_server.ShouldStop());
  EXPECT_TRUE(StopToken(SteadyNow()).ShouldStop());
  EXPECT_FALSE(StopToken(SteadyNow() + absl::Hours(1)).ShouldStop());
}

}  // namespace
}  // namespace attention::server
