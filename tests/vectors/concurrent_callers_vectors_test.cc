// Sixteen callers at once, each with its own numbers: a shared scratch buffer would show another caller's numbers.

#include <thread>

#include "tests/vectors/report_checks.h"

namespace attention::test {
namespace {

constexpr int kRounds = 500;

struct Setting {
  int threads;
  bool batching;
};

class ConcurrentCallersVectorsTest : public ::testing::TestWithParam<Setting> {};

TEST_P(ConcurrentCallersVectorsTest, GetTheirOwnNumbers) {
  if (!VectorsFolder().has_value()) GTEST_SKIP() << kNoVectors;
  auto report = ReadReport("38-concurrent-callers");
  ASSERT_THAT(report, IsOk());
  ASSERT_EQ(report->calls.size(), 16u);
  RunningServerOptions options = {.checkpoints = report->weights};
  options.config.threads = GetParam().threads;
  if (!GetParam().batching) options.config.max_batch_requests = 1;
  auto running = RunningServer::Start(options);
  ASSERT_THAT(running, IsOk());

  std::vector<std::thread> callers;
  for (const ReportCall& call : report->calls) {
    callers.emplace_back([&client = (*running)->client(), &call] {
      const AttendRequest request = ClientRequest(call.request);
      for (int round = 0; round < kRounds && !::testing::Test::HasFailure(); ++round) {
        ExpectRight(call, client.Attend(request));
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
}

INSTANTIATE_TEST_SUITE_P(Settings, ConcurrentCallersVectorsTest,
                         ::testing::Values(Setting{1, true}, Setting{2, true}, Setting{16, true}, Setting{1, false},
                                           Setting{2, false}, Setting{16, false}),
                         [](const auto& info) {
                           return std::to_string(info.param.threads) + "Threads" +
                                  (info.param.batching ? "Batching" : "OneByOne");
                         });

}  // namespace
}  // namespace attention::test
