#include "server/admission/call_gate.h"

#include <gtest/gtest.h>

#include <optional>
#include <thread>
#include <utility>

#include "absl/time/clock.h"

namespace attention::server {
namespace {

TEST(CallGateTest, AdmitsCallsUntilItIsClosed) {
  CallGate gate;
  EXPECT_TRUE(gate.Enter().has_value());
  EXPECT_TRUE(gate.Enter().has_value());
  EXPECT_TRUE(gate.CloseAndWait(absl::InfinitePast()));
  EXPECT_FALSE(gate.Enter().has_value());
  EXPECT_EQ(StoppingError(), absl::UnavailableError("server: the server is stopping"));
}

TEST(CallGateTest, StopsWaitingAtTheDeadline) {
  CallGate gate;
  const std::optional<CallGate::Pass> pass = gate.Enter();
  ASSERT_TRUE(pass.has_value());
  EXPECT_FALSE(gate.CloseAndWait(absl::Now()));
}

TEST(CallGateTest, WaitsForActivePasses) {
  CallGate gate;
  std::optional<CallGate::Pass> pass = gate.Enter();
  ASSERT_TRUE(pass.has_value());
  CallGate::Pass moved = *std::move(pass);
  pass.reset();  // NOLINT(bugprone-use-after-move): a moved-from pass must not count
  EXPECT_FALSE(gate.CloseAndWait(absl::Now())) << "a moved pass counts once";
  std::thread call([moved = std::move(moved)] {});
  EXPECT_TRUE(gate.CloseAndWait(absl::InfiniteFuture()));
  call.join();
}

}  // namespace
}  // namespace attention::server
