#include "client/cli/bench/bench_report.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

namespace attention::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

BenchOptions Options() {
  BenchOptions options;
  options.weight_set = "demo/small";
  options.batch = 2;
  options.q_length = 16;
  options.kv_length = 32;
  return options;
}

// Four requests in two seconds: latencies of 1 to 4 ms, half of it compute, in batches of 1 to 4.
LoadResult Result() {
  LoadResult result;
  for (int i = 1; i <= 4; ++i) {
    Timing timing;
    timing.queue_time = std::chrono::microseconds(10 * i);
    timing.compute_time = std::chrono::microseconds(500 * i);
    timing.batch_requests = i;
    result.samples.push_back({milliseconds(i), timing});
  }
  result.elapsed = seconds(2);
  return result;
}

TEST(BenchReportTest, PrintsATable) {
  EXPECT_EQ(BenchText(Options(), Result()),
            "demo/small: batch 2 × q_length 16 × kv_length 32; closed loop, 1 request in flight\n"
            "4 requests in 2.00 s, 0 errors\n"
            "2.0 requests/s, 192 tokens/s, mean batch 2.50 requests\n"
            "\n"
            "                   mean      p50      p90      p95      p99    p99.9      max\n"
            "latency         2.50 ms  2.00 ms  4.00 ms  4.00 ms  4.00 ms  4.00 ms  4.00 ms\n"
            "server queue    25.0 µs  20.0 µs  40.0 µs  40.0 µs  40.0 µs  40.0 µs  40.0 µs\n"
            "server compute  1.25 ms  1.00 ms  2.00 ms  2.00 ms  2.00 ms  2.00 ms  2.00 ms\n");
}

TEST(BenchReportTest, CountsErrorsAndRequestsNotSent) {
  BenchOptions options = Options();
  options.rate = 100;
  options.connections = 3;
  LoadResult result = Result();
  result.errors = {{absl::StatusCode::kUnavailable, 5}, {absl::StatusCode::kDeadlineExceeded, 1}};
  result.first_error = absl::UnavailableError("the queue is full");
  result.not_sent = 7;
  const std::string text = BenchText(options, result);
  EXPECT_THAT(text, HasSubstr("open loop, 100 requests/s, at most 1000 in flight over 3 connections\n"
                              "10 requests in 2.00 s, 6 errors\n"
                              "  DEADLINE_EXCEEDED: 1\n"
                              "  UNAVAILABLE: 5\n"
                              "  first error: the queue is full\n"
                              "7 more requests due but not sent: the server is too slow for this rate with at most "
                              "1000 requests in flight (--concurrency)\n"));
}

TEST(BenchReportTest, OmitsTheTableIfNoRequestSucceeded) {
  LoadResult result;
  result.errors = {{absl::StatusCode::kUnavailable, 1}};
  EXPECT_EQ(BenchText(Options(), result),
            "demo/small: batch 2 × q_length 16 × kv_length 32; closed loop, 1 request in flight\n"
            "1 request in 0.00 s, 1 error\n"
            "  UNAVAILABLE: 1\n");
}

TEST(BenchReportTest, JsonHoldsTheSameFigures) {
  LoadResult result = Result();
  result.errors = {{absl::StatusCode::kUnavailable, 5}};
  const nlohmann::json report = nlohmann::json::parse(BenchJson(Options(), result));
  EXPECT_EQ(report["load"]["mode"], "closed_loop");
  EXPECT_EQ(report["load"]["kv_length"], 32);
  EXPECT_EQ(report["requests"], 9);
  EXPECT_EQ(report["errors"]["UNAVAILABLE"], 5);
  EXPECT_EQ(report["elapsed_ns"], 2000000000);
  EXPECT_EQ(report["requests_per_second"], 2.0);
  EXPECT_EQ(report["tokens_per_second"], 192.0);
  EXPECT_EQ(report["latency"]["p50_ns"], 2000000);
  EXPECT_EQ(report["latency"]["max_ns"], 4000000);
  EXPECT_EQ(report["server_queue"]["p99_ns"], 40000);
  EXPECT_EQ(report["server_compute"]["p50_ns"], 1000000);
  EXPECT_EQ(report["mean_batch_requests"], 2.5);
}

TEST(BenchReportTest, TokensOfSelfAttentionAreCountedOnce) {
  BenchOptions options = Options();
  options.kv_length.reset();
  EXPECT_EQ(TokensPerRequest(options), 32);
  EXPECT_EQ(TokensPerRequest(Options()), 96);
}

TEST(BenchReportTest, RandomLengthsCountByTheirMean) {
  BenchOptions options = Options();
  options.random_lengths = true;
  EXPECT_EQ(TokensPerRequest(options), 2 * (8.5 + 16.5));
  EXPECT_EQ(ShapeText(options), "demo/small: batch 2 × q_length 1 to 16 × kv_length 1 to 32");
}

std::vector<int64_t> OneTo(int64_t last) {
  std::vector<int64_t> samples(last);
  std::iota(samples.begin(), samples.end(), 1);
  return samples;
}

struct PercentileCase {
  int64_t samples;
  double percent;
  int64_t expected;
};

class PercentileTest : public ::testing::TestWithParam<PercentileCase> {};

TEST_P(PercentileTest, IsTheNearestRank) {
  EXPECT_EQ(Percentile(OneTo(GetParam().samples), GetParam().percent), GetParam().expected);
}

INSTANTIATE_TEST_SUITE_P(Ranks, PercentileTest,
                         ::testing::Values(PercentileCase{1, 50, 1}, PercentileCase{1, 99.9, 1},
                                           PercentileCase{2, 50, 1}, PercentileCase{2, 51, 2},
                                           PercentileCase{100, 50, 50}, PercentileCase{100, 99, 99},
                                           PercentileCase{100, 99.9, 100}, PercentileCase{1000, 99.9, 999},
                                           PercentileCase{10, 100, 10}, PercentileCase{10, 0.001, 1}));

TEST(DistributionTest, SortsTheSamples) {
  std::vector<int64_t> samples = OneTo(1000);
  std::reverse(samples.begin(), samples.end());
  const Distribution distribution = Summarize(samples);
  EXPECT_EQ(distribution.count, 1000);
  EXPECT_EQ(distribution.mean, 500.5);
  EXPECT_EQ(distribution.p50, 500);
  EXPECT_EQ(distribution.p90, 900);
  EXPECT_EQ(distribution.p95, 950);
  EXPECT_EQ(distribution.p99, 990);
  EXPECT_EQ(distribution.p99_9, 999);
  EXPECT_EQ(distribution.max, 1000);
}

TEST(DistributionTest, AnEmptySetIsAllZero) {
  const Distribution distribution = Summarize({});
  EXPECT_EQ(distribution.count, 0);
  EXPECT_EQ(distribution.mean, 0);
  EXPECT_EQ(distribution.max, 0);
}

}  // namespace
}  // namespace attention::cli
