#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "server/batching/batch_queue.h"
#include "server/batching/batch_runner.h"
#include "spdlog/sinks/ostream_sink.h"
#include "spdlog/spdlog.h"
#include "tests/testing/server/batching_fakes.h"

namespace attention::server {
namespace {

using test::MakeTask;
using test::MakeWeightSet;
using test::Outcome;
using testing::HasSubstr;

struct Failure {
  std::string name;
  std::function<absl::Status()> fail;
  absl::Status status;
  std::string logged;
};

class BatchRunnerFailureTest : public testing::TestWithParam<Failure> {
 protected:
  BatchRunnerFailureTest() {
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(written_)));
  }
  ~BatchRunnerFailureTest() override { spdlog::set_default_logger(former_); }

  std::shared_ptr<Outcome> Push(const std::shared_ptr<const WeightSet>& weight_set) {
    auto outcome = std::make_shared<Outcome>();
    std::unique_ptr<Task> task = MakeTask({.weight_set = weight_set}, outcome);
    EXPECT_EQ(queue_.Push(task), absl::OkStatus());
    return outcome;
  }

  const std::shared_ptr<spdlog::logger> former_ = spdlog::default_logger();
  std::ostringstream written_;
  BatchQueue queue_{BatchQueueOptions{}};
};

TEST_P(BatchRunnerFailureTest, FailsOnlyTheTasksOfThatBatch) {
  const std::shared_ptr<const WeightSet> bad = MakeWeightSet("bad"), good = MakeWeightSet("good");
  const auto before = Push(good);
  std::vector<std::shared_ptr<Outcome>> failed;
  for (int i = 0; i < 3; ++i) failed.push_back(Push(bad));
  int batches = 0;
  std::optional<BatchRunner> runner;
  runner.emplace(&queue_, [&](const WeightSet& weight_set, absl::Span<const AttentionCall* const>) {
    ++batches;
    return &weight_set == bad.get() ? GetParam().fail() : absl::OkStatus();
  });
  for (const auto& outcome : failed) outcome->Await();
  const auto after = Push(good);
  queue_.Close();
  runner.reset();

  EXPECT_EQ(batches, 3);
  EXPECT_EQ(before->status(), absl::OkStatus());
  EXPECT_EQ(after->status(), absl::OkStatus());
  for (const auto& outcome : failed) {
    EXPECT_EQ(outcome->status(), GetParam().status);
    EXPECT_EQ(outcome->runs(), 1);
  }
  EXPECT_THAT(written_.str(),
              HasSubstr("computing a batch of 3 requests for weight set bad failed: " + GetParam().logged));
}

INSTANTIATE_TEST_SUITE_P(
    Table, BatchRunnerFailureTest,
    testing::ValuesIn(std::vector<Failure>{
        {"OutOfMemory", []() -> absl::Status { throw std::bad_alloc(); },
         absl::ResourceExhaustedError("memory: the server is out of memory"), "out of memory"},
        {"Exception", []() -> absl::Status { throw std::runtime_error("at address 0x1234"); },
         absl::InternalError("server: internal error, see the server's log for details"), "at address 0x1234"},
        {"OtherException", []() -> absl::Status { throw 5; },
         absl::InternalError("server: internal error, see the server's log for details"), "unknown exception"},
        {"Status", [] { return absl::InternalError("oneDNN: unimplemented"); },
         absl::InternalError("oneDNN: unimplemented"), "INTERNAL: oneDNN: unimplemented"},
    }),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace attention::server
