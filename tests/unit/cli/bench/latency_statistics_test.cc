#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "client/cli/bench/bench_report.h"

namespace attention::cli {
namespace {

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

TEST(LatencyStatisticsTest, SortsWhatItIsGiven) {
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

TEST(LatencyStatisticsTest, AnEmptySetIsAllZero) {
  const Distribution distribution = Summarize({});
  EXPECT_EQ(distribution.count, 0);
  EXPECT_EQ(distribution.mean, 0);
  EXPECT_EQ(distribution.max, 0);
}

}  // namespace
}  // namespace attention::cli
