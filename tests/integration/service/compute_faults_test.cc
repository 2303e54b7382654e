// Exceptions in the computation end the calls of one batch only.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <stdexcept>

#include "tests/testing/matchers.h"
#include "tests/testing/server/requests.h"
#include "tests/testing/server/running_server.h"
#include "tests/testing/server/together.h"
#include "tests/testing/server/wire.h"

namespace attention::test {
namespace {

constexpr char kSecret[] = "secret of the engine";

struct Fault {
  const char* name;
  void (*raise)();
  absl::StatusCode code;
};

const Fault kFaults[] = {
    {"BadAlloc", [] { throw std::bad_alloc(); }, absl::StatusCode::kResourceExhausted},
    {"RuntimeError", [] { throw std::runtime_error(kSecret); }, absl::StatusCode::kInternal},
    {"OtherException", [] { throw 7; }, absl::StatusCode::kInternal},
};

class ComputeFaultsTest : public ::testing::TestWithParam<Fault> {};

TEST_P(ComputeFaultsTest, EndEveryCallOfTheBatchAndLeaveTheServerAlive) {
  constexpr int kCalls = 3;
  std::atomic<bool> faulty = true;
  auto engine = EngineCompute(1);
  ASSERT_THAT(engine, IsOk());
  RunningServerOptions options = {.checkpoints = {{"ones", ToParameters(OnesLayer())}},
                                  .config = SharingConfig(kCalls)};
  options.compute = [&](const server::WeightSet& weight_set, absl::Span<const server::AttentionCall* const> calls) {
    if (faulty) GetParam().raise();
    return (*engine)(weight_set, calls);
  };
  auto running = RunningServer::Start(options);
  ASSERT_THAT(running, IsOk());

  const auto requests = RepeatTo(kCalls, {QuestionRequest("ones")});
  for (const auto& reply : AttendTogether((*running)->client(), requests)) {
    EXPECT_THAT(reply, StatusIs(GetParam().code, ::testing::Not(::testing::HasSubstr(kSecret))));
  }
  faulty = false;
  for (const auto& reply : AttendTogether((*running)->client(), requests)) {
    ASSERT_THAT(reply, IsOk());
    EXPECT_THAT(reply->output, Near(QuestionAnswer()));
  }
}

INSTANTIATE_TEST_SUITE_P(Faults, ComputeFaultsTest, ::testing::ValuesIn(kFaults),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace attention::test
