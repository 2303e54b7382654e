#include "client/cli/bench/load_generator.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "absl/synchronization/mutex.h"

namespace attention::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::Pair;

// A clock that advances only in Advance and SleepUntil.
class FakeClock : public LoadClock {
 public:
  LoadTime Now() override {
    absl::MutexLock lock(&mu_);
    return now_;
  }
  void SleepUntil(LoadTime time) override {
    absl::MutexLock lock(&mu_);
    now_ = std::max(now_, time);
  }
  void Advance(nanoseconds time) {
    absl::MutexLock lock(&mu_);
    now_ += time;
  }

 private:
  absl::Mutex mu_;
  LoadTime now_ ABSL_GUARDED_BY(mu_) = LoadTime(seconds(1000));
};

// Load tests of a few seconds.
class LoadGeneratorTest : public ::testing::Test {
 protected:
  LoadPlan Plan(seconds warmup, seconds duration) {
    const LoadTime start = clock_.Now();
    return {.start = start, .measure_start = start + warmup, .end = start + warmup + duration};
  }

  // A server that replies before the send returns, after `service_time`.
  SendRequest Inline(nanoseconds service_time) {
    return [this, service_time](int64_t index, const LoadDone& done) {
      sent_.push_back(index);
      clock_.Advance(service_time);
      done(AttendReply{});
    };
  }

  static std::vector<int64_t> LatenciesMs(const LoadResult& result) {
    std::vector<int64_t> latencies;
    for (const LoadSample& sample : result.samples) latencies.push_back(sample.latency / milliseconds(1));
    return latencies;
  }

  FakeClock clock_;
  std::vector<int64_t> sent_;
};

TEST_F(LoadGeneratorTest, ClosedLoopSendsTheNextRequestWhenOneEnds) {
  const LoadPlan plan = Plan(seconds(0), seconds(1));
  LoadRecorder recorder(plan.measure_start);
  RunClosedLoop(plan, Inline(milliseconds(250)), clock_, recorder);
  const LoadResult result = recorder.TakeResult();
  EXPECT_THAT(sent_, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(LatenciesMs(result), ElementsAre(250, 250, 250, 250));
  EXPECT_EQ(result.elapsed, seconds(1));
}

TEST_F(LoadGeneratorTest, ClosedLoopDoesNotCountTheWarmup) {
  const LoadPlan plan = Plan(seconds(1), seconds(1));
  LoadRecorder recorder(plan.measure_start);
  RunClosedLoop(plan, Inline(milliseconds(500)), clock_, recorder);
  EXPECT_EQ(sent_.size(), 4u);
  EXPECT_THAT(LatenciesMs(recorder.TakeResult()), ElementsAre(500, 500));
}

TEST_F(LoadGeneratorTest, ClosedLoopStopsAfterItsRequests) {
  LoadPlan plan = Plan(seconds(0), seconds(1000));
  plan.max_requests = 3;
  plan.concurrency = 2;
  LoadRecorder recorder(plan.measure_start);
  RunClosedLoop(plan, Inline(milliseconds(1)), clock_, recorder);
  EXPECT_EQ(recorder.TakeResult().samples.size(), 3u);
}

TEST_F(LoadGeneratorTest, ClosedLoopOfManyInlineRepliesCostsNoStack) {
  LoadPlan plan = Plan(seconds(0), seconds(1000));
  plan.max_requests = 200000;
  LoadRecorder recorder(plan.measure_start);
  RunClosedLoop(plan, Inline(nanoseconds(1)), clock_, recorder);
  EXPECT_EQ(recorder.TakeResult().samples.size(), 200000u);
}

TEST_F(LoadGeneratorTest, ClosedLoopKeepsItsConcurrencyWithRepliesOnOtherThreads) {
  LoadPlan plan = Plan(seconds(0), seconds(1000));
  plan.max_requests = 500;
  plan.concurrency = 4;
  LoadRecorder recorder(plan.measure_start);
  std::atomic<int> in_flight{0}, most{0};
  absl::Mutex mu;
  std::vector<std::thread> threads;
  const SendRequest send = [&](int64_t, LoadDone done) {
    const int now = ++in_flight;
    for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
    }
    absl::MutexLock lock(&mu);
    threads.emplace_back([&in_flight, done = std::move(done)] {
      --in_flight;
      done(AttendReply{});
    });
  };
  RunClosedLoop(plan, send, clock_, recorder);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(recorder.TakeResult().samples.size(), 500u);
  EXPECT_LE(most, 4);
}

TEST_F(LoadGeneratorTest, OpenLoopSendsWhenRequestsAreDue) {
  LoadPlan plan = Plan(seconds(0), seconds(1));
  plan.rate = 4;
  LoadRecorder recorder(plan.measure_start);
  std::vector<int64_t> sent_ms;
  const SendRequest send = [&](int64_t, const LoadDone& done) {
    sent_ms.push_back((clock_.Now() - plan.start) / milliseconds(1));
    done(AttendReply{});
  };
  RunOpenLoop(plan, send, clock_, recorder);
  EXPECT_THAT(sent_ms, ElementsAre(0, 250, 500, 750));
}

// The first request takes two seconds. Those that are due meanwhile are sent late, which their latency includes.
TEST_F(LoadGeneratorTest, OpenLoopCountsLatencyFromTheDueTime) {
  LoadPlan plan = Plan(seconds(0), seconds(4));
  plan.rate = 1;
  LoadRecorder recorder(plan.measure_start);
  const SendRequest send = [&](int64_t index, const LoadDone& done) {
    clock_.Advance(index == 0 ? milliseconds(2000) : milliseconds(10));
    done(AttendReply{});
  };
  RunOpenLoop(plan, send, clock_, recorder);
  EXPECT_THAT(LatenciesMs(recorder.TakeResult()), ElementsAre(2000, 1010, 20, 10));
}

TEST_F(LoadGeneratorTest, OpenLoopCountsRequestsNotSent) {
  LoadPlan plan = Plan(seconds(0), seconds(4));
  plan.rate = 1;
  LoadRecorder recorder(plan.measure_start);
  RunOpenLoop(plan, Inline(milliseconds(2500)), clock_, recorder);
  const LoadResult result = recorder.TakeResult();
  EXPECT_THAT(LatenciesMs(result), ElementsAre(2500, 4000));
  EXPECT_EQ(result.not_sent, 2);
}

TEST_F(LoadGeneratorTest, OpenLoopStopsAfterItsRequests) {
  LoadPlan plan = Plan(seconds(1), seconds(100));
  plan.rate = 2;
  plan.max_requests = 3;
  LoadRecorder recorder(plan.measure_start);
  RunOpenLoop(plan, Inline(milliseconds(1)), clock_, recorder);
  EXPECT_THAT(sent_, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_EQ(recorder.TakeResult().samples.size(), 3u);
}

TEST_F(LoadGeneratorTest, CountsErrorsByTheirCode) {
  const LoadPlan plan = Plan(seconds(0), seconds(3));
  LoadRecorder recorder(plan.measure_start);
  const SendRequest send = [&](int64_t index, const LoadDone& done) {
    clock_.Advance(seconds(1));
    if (index == 1) return done(AttendReply{});
    done(absl::UnavailableError(index == 0 ? "full" : "still full"));
  };
  RunClosedLoop(plan, send, clock_, recorder);
  EXPECT_EQ(recorder.progress().errors, 2);
  EXPECT_EQ(recorder.progress().in_flight, 0);
  const LoadResult result = recorder.TakeResult();
  EXPECT_EQ(result.requests(), 3);
  EXPECT_EQ(result.samples.size(), 1u);
  EXPECT_THAT(result.errors, ElementsAre(Pair(absl::StatusCode::kUnavailable, 2)));
  EXPECT_EQ(result.first_error, absl::UnavailableError("full"));
}

}  // namespace
}  // namespace attention::cli
