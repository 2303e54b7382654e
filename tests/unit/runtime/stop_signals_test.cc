#include "server/runtime/stop_signals.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>

#include "server/observability/logging.h"

namespace attention::server {
namespace {

constexpr int kReachedTheEnd = 7;

using ::testing::ExitedWithCode;
using ::testing::KilledBySignal;

// Each test runs in a process of its own.
class StopSignalsDeathTest : public ::testing::Test {
 protected:
  StopSignalsDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

void Send(int signal) { kill(getpid(), signal); }

// Sends a signal to a process that is starting.
[[noreturn]] void SendWhileStarting(int signal) {
  StartLogging(LogLevel::kInfo, LogFormat::kText);
  {
    StopSignals signals;
    Send(signal);
  }
  std::_Exit(kReachedTheEnd);
}

// Sends a signal to a process that serves, then another one while it stops. 0: none.
[[noreturn]] void SendWhileServing(int first, int second) {
  StartLogging(LogLevel::kInfo, LogFormat::kText);
  {
    StopSignals signals;
    signals.SetServing();
    Send(first);
    if (second != 0) {
      signals.Wait();
      Send(second);
    }
  }
  std::_Exit(kReachedTheEnd);
}

TEST_F(StopSignalsDeathTest, EndsAProcessThatStarts) {
  EXPECT_EXIT(SendWhileStarting(SIGTERM), ExitedWithCode(0), "received SIGTERM before the start was complete");
  EXPECT_EXIT(SendWhileStarting(SIGINT), ExitedWithCode(0), "received SIGINT before the start was complete");
}

TEST_F(StopSignalsDeathTest, IgnoresHangupAndBrokenPipes) {
  EXPECT_EXIT(SendWhileStarting(SIGHUP), ExitedWithCode(kReachedTheEnd), "received SIGHUP, which is ignored");
  EXPECT_EXIT(SendWhileServing(SIGHUP, 0), ExitedWithCode(kReachedTheEnd), "received SIGHUP, which is ignored");
  EXPECT_EXIT(SendWhileServing(SIGPIPE, 0), ExitedWithCode(kReachedTheEnd), "");
}

TEST_F(StopSignalsDeathTest, IgnoresFurtherSigterms) {
  EXPECT_EXIT(SendWhileServing(SIGTERM, SIGTERM), ExitedWithCode(kReachedTheEnd), "received SIGTERM while stopping");
  EXPECT_EXIT(SendWhileServing(SIGINT, SIGTERM), ExitedWithCode(kReachedTheEnd), "received SIGTERM while stopping");
}

TEST_F(StopSignalsDeathTest, EndsAtOnceBySigintWhileStopping) {
  EXPECT_EXIT(SendWhileServing(SIGINT, SIGINT), KilledBySignal(SIGINT), "received SIGINT while stopping");
  EXPECT_EXIT(SendWhileServing(SIGTERM, SIGINT), KilledBySignal(SIGINT), "received SIGINT while stopping");
}

}  // namespace
}  // namespace attention::server
