#include "server/admission/call_gate.h"

#include <gtest/gtest.h>

#include <optional>
#include <thread>
#include <utility>

#include "absl/time/clock.h"

namespace attention::server {
namespace {

TEST(CallGateTest, LetsInUntilItIsClosed) {
  CallGate gate;
  EXPECT_TRUE(gate.Enter().has_value());
  EXPECT_TRUE(gate.Enter().has_value());
  EXPECT_TRUE(gate.CloseAndWait(absl::InfinitePast()));
  EXPECT_FALSE(gate.Enter().has_value());
  EXPECT_EQ(CallGate::Closed(), absl::UnavailableError("the server is stopping"));
}

TEST(CallGateTest, WaitsNoLongerThanToTheDeadline) {
  CallGate gate;
  const std::optional<CallGate::Pass> pass = gate.Enter();
  ASSERT_TRUE(pass.has_value());
  EXPECT_FALSE(gate.CloseAndWait(absl::Now()));
}

TEST(CallGateTest, WaitsForThePassesThatAreOut) {
  CallGate gate;
  std::optional<CallGate::Pass> pass = gate.Enter();
  ASSERT_TRUE(pass.has_value());
  CallGate::Pass moved = *std::move(pass);
  pass.reset();  // NOLINT(bugprone-use-after-move): what is left of it must not count
  EXPECT_FALSE(gate.CloseAndWait(absl::Now())) << "a pass that was moved counts once";
  std::thread call([moved = std::move(moved)] {});
  EXPECT_TRUE(gate.CloseAndWait(absl::InfiniteFuture()));
  call.join();
}

}  // namespace
}  // namespace attention::server
