// Report 37: a weight set that is replaced, unloaded and loaded again while 16 callers use it.

#include <atomic>
#include <thread>

#include "absl/strings/match.h"
#include "tests/testing/vectors/report_case.h"
#include "tests/vectors/report_checks.h"

namespace attention::test {
namespace {

constexpr int kCallers = 16;
constexpr int kRounds = 50;

class LoadUnloadRaceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!VectorsFolder().has_value()) GTEST_SKIP() << kNoVectors;
    auto report = ReadReport("37-load-unload-race");
    ASSERT_THAT(report, IsOk());
    report_ = *std::move(report);
    ASSERT_EQ(report_.calls.size(), 1u);
    // NOT_FOUND is right between an unload and the next load.
    ASSERT_TRUE(report_.calls[0].or_else.has_value());
    auto running = RunningServer::Start({.checkpoints = {{"w", report_.weights.at("v1")}}, .gate = &gate_});
    ASSERT_THAT(running, IsOk());
    running_ = *std::move(running);
  }

  const ReportCall& call() const { return report_.calls[0]; }
  const Client& client() const { return running_->client(); }

  absl::Status Load(const std::string& version) const { return running_->Load("w", report_.weights.at(version)); }

  Gate gate_;
  Report report_;
  std::unique_ptr<RunningServer> running_;
};

// A call may be NOT_FOUND only if the weight set was unloaded at some time during the call. `load_changes` counts
// unloads and the loads after them, so it is odd while the set is unloaded.
TEST_F(LoadUnloadRaceTest, GivesWholeVersionsOrNotFoundWhileItIsUnloaded) {
  std::atomic<bool> stop{false};
  std::atomic<int> load_changes{0};
  std::atomic<int64_t> answered{0};
  const auto ask = [&] {
    while (!stop) {
      const int before = load_changes;
      const absl::StatusOr<v1::AttendResponse> response = running_->AttendRaw(call().request);
      ExpectRight(call(), response);
      const bool was_there = before % 2 == 0 && before == load_changes;
      EXPECT_TRUE(response.ok() || !was_there) << response.status();
      if (response.ok()) ++answered;
      if (HasFailure()) return;
    }
  };
  std::vector<std::thread> callers;
  for (int i = 0; i < kCallers; ++i) callers.emplace_back(ask);
  for (int round = 0; round < kRounds && !HasFailure(); ++round) {
    EXPECT_THAT(Load("v2"), IsOk());
    EXPECT_THAT(Load("v1"), IsOk());
    ++load_changes;
    EXPECT_THAT(client().Unload("w"), IsOk());
    EXPECT_THAT(Load("v1"), IsOk());
    ++load_changes;
  }
  stop = true;
  for (std::thread& caller : callers) caller.join();
  EXPECT_GT(answered, kRounds);
}

// Two clients that each load and unload the same name: the second one gets a status that says what is loaded.
TEST_F(LoadUnloadRaceTest, TellsTwoClientsOfOneNameWhatIs) {
  const auto load_and_unload = [&] {
    for (int round = 0; round < kRounds; ++round) {
      EXPECT_THAT(client().LoadCheckpoint("w"), IsOk());
      ExpectRight(call(), running_->AttendRaw(call().request));
      const absl::Status status = client().Unload("w").status();
      EXPECT_TRUE(status.ok() || (absl::IsNotFound(status) && absl::StrContains(status.message(), "w"))) << status;
    }
  };
  std::thread other(load_and_unload);
  load_and_unload();
  other.join();
}

// Twice, as in the report. The old weights are released when the call that uses them ends.
TEST_F(LoadUnloadRaceTest, LetsAcceptedCallsEndWithTheOldWeights) {
  for (int round = 0; round < 2; ++round) {
    gate_.Close();
    auto running_call = client().AttendFuture(ClientRequest(call().request));
    gate_.AwaitHeld();
    std::weak_ptr<const server::WeightSet> weights = running_->server().registry().Find("w").value();
    EXPECT_THAT(client().Unload("w"), IsOk());
    EXPECT_FALSE(weights.expired());
    gate_.Open();
    const absl::StatusOr<AttendReply> reply = running_call.get();
    ASSERT_THAT(reply, IsOk());
    ExpectRight(call(), reply);
    EXPECT_THAT(Load("v1"), IsOk());
    EXPECT_TRUE(weights.expired());
  }
}

}  // namespace
}  // namespace attention::test
