#include "client/cli/bench/bench_breakdown.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/testing/matchers.h"

namespace attention::cli {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using test::IsOk;
using test::StatusIs;
using ::testing::Each;

constexpr nanoseconds kNoWarmup(0);

// Advances only by the durations of the calls.
class FakeClock : public LoadClock {
 public:
  LoadTime Now() override { return now_; }
  void SleepUntil(LoadTime time) override { now_ = time; }
  void Pass(nanoseconds time) { now_ += time; }

 private:
  LoadTime now_;
};

// An empty call takes 1 ms, a refused one 2 ms, the request 7 ms; the first one of a turn takes 100 ms longer.
class BenchBreakdownTest : public ::testing::Test {
 protected:
  BenchBreakdownTest() {
    calls_.empty = [this] { return Take('e', milliseconds(1)); };
    calls_.refused = [this] { return Take('r', milliseconds(2)); };
    calls_.request = [this]() -> absl::StatusOr<AttendReply> {
      if (absl::Status status = Take('a', milliseconds(7)); !status.ok()) return status;
      AttendReply reply;
      reply.timing.compute_time = milliseconds(4);
      return reply;
    };
  }

  absl::StatusOr<BreakdownTimes> Measure(nanoseconds warmup, nanoseconds end, int64_t max_requests = 0) {
    LoadPlan plan;
    plan.start = clock_.Now();
    plan.measure_start = plan.start + warmup;
    plan.end = plan.start + end;
    plan.max_requests = max_requests;
    return MeasureBreakdown(plan, calls_, clock_);
  }

  absl::Status Take(char call, nanoseconds time) {
    const bool first = order_.empty() || order_.back() != call;
    clock_.Pass(first ? time + milliseconds(100) : time);
    order_.push_back(call);
    return call == failing_ ? absl::UnavailableError("full") : absl::OkStatus();
  }

  FakeClock clock_;
  BreakdownCalls calls_;
  std::string order_;
  char failing_ = 0;
};

// In one round: 101 + 1, 102 + 2 and 107 + 7 ms.
TEST_F(BenchBreakdownTest, AlternatesCallsAndDoesNotCountTheFirstOfATurn) {
  const auto times = Measure(kNoWarmup, milliseconds(321));
  ASSERT_THAT(times, IsOk());
  EXPECT_EQ(order_, "eerraaeerraa");
  EXPECT_THAT(times->empty, Each(milliseconds(1)));
  EXPECT_THAT(times->refused, Each(milliseconds(2)));
  EXPECT_EQ(times->empty.size(), 2);
  EXPECT_EQ(times->refused.size(), 2);
  ASSERT_EQ(times->requests.size(), 2);
  EXPECT_EQ(times->requests.back().latency, milliseconds(7));
  EXPECT_EQ(times->requests.back().timing.compute_time, milliseconds(4));
}

TEST_F(BenchBreakdownTest, RepeatsShortCallsWithinATurn) {
  calls_.empty = [this] {
    clock_.Pass(milliseconds(1));
    order_.push_back('e');
    return absl::OkStatus();
  };
  const auto times = Measure(kNoWarmup, milliseconds(1));
  ASSERT_THAT(times, IsOk());
  EXPECT_EQ(order_, "eeeeerraa");
  EXPECT_EQ(times->empty.size(), 4);
}

TEST_F(BenchBreakdownTest, DoesNotCountTheWarmUp) {
  const auto times = Measure(milliseconds(321), milliseconds(961));
  ASSERT_THAT(times, IsOk());
  EXPECT_EQ(times->requests.size(), 2);  // of the rounds that begin at 640 and 960 ms
}

TEST_F(BenchBreakdownTest, EndsAfterTheMaximumNumberOfRequests) {
  const auto times = Measure(kNoWarmup, seconds(100), 3);
  ASSERT_THAT(times, IsOk());
  EXPECT_EQ(times->requests.size(), 3);
}

TEST_F(BenchBreakdownTest, MeasuresOnceIfTheWarmUpTakesAllTheTime) {
  const auto times = Measure(milliseconds(100), milliseconds(200));
  ASSERT_THAT(times, IsOk());
  EXPECT_EQ(times->requests.size(), 1);
}

TEST_F(BenchBreakdownTest, EndsAtTheFirstError) {
  for (char call : {'e', 'r', 'a'}) {
    failing_ = call;
    EXPECT_THAT(Measure(kNoWarmup, seconds(1000)), StatusIs(absl::StatusCode::kUnavailable, "full")) << call;
  }
}

BenchOptions Options() {
  BenchOptions options;
  options.weight_set = "demo/small";
  return options;
}

// Medians: 100, 150, 700, 20 and 400 µs.
BreakdownTimes Times() {
  BreakdownTimes times;
  for (int i : {3, 1, 2}) {
    times.empty.push_back(microseconds(50 * i));
    times.refused.push_back(microseconds(75 * i));
    LoadSample sample;
    sample.latency = microseconds(350 * i);
    sample.timing.queue_time = microseconds(10 * i);
    sample.timing.compute_time = microseconds(200 * i);
    times.requests.push_back(sample);
  }
  return times;
}

TEST(BenchBreakdownReportTest, PrintsATable) {
  EXPECT_EQ(BreakdownText(Options(), Times()),
            "demo/small: batch 1 × q_length 16 (self-attention); one call at a time, medians of 3 requests\n"
            "\n"
            "                       p50  share\n"
            "empty call        100.0 µs   14 %  a health check\n"
            "request transfer   50.0 µs    7 %  copy, send and parse; measured with a refused request\n"
            "server queue       20.0 µs    3 %  until a thread takes the request\n"
            "server compute    400.0 µs   57 %  the engine\n"
            "rest              130.0 µs   19 %  validate, allocate and send the reply\n"
            "whole request     700.0 µs  100 %\n"
            "\n"
            "The whole request takes 1.40 times as long as the empty call and the engine together.\n");
}

TEST(BenchBreakdownReportTest, JsonHoldsTheSameFigures) {
  const nlohmann::json report = nlohmann::json::parse(BreakdownJson(Options(), Times()));
  EXPECT_EQ(report["weight_set"], "demo/small");
  EXPECT_EQ(report["requests"], 3);
  EXPECT_EQ(report["empty_call_ns"], 100000);
  EXPECT_EQ(report["request_transfer_ns"], 50000);
  EXPECT_EQ(report["server_queue_ns"], 20000);
  EXPECT_EQ(report["server_compute_ns"], 400000);
  EXPECT_EQ(report["rest_ns"], 130000);
  EXPECT_EQ(report["request_ns"], 700000);
  EXPECT_EQ(report["request_to_empty_and_compute"], 1.4);
}

}  // namespace
}  // namespace attention::cli
