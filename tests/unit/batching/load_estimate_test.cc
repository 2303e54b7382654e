#include "server/batching/load_estimate.h"

#include <gtest/gtest.h>

namespace attention::server {
namespace {

const absl::Time kStart = absl::FromUnixSeconds(1'000'000);

TEST(LoadEstimateTest, KnowsNothingAtFirst) {
  const LoadEstimate estimate;
  EXPECT_TRUE(estimate.idle());
  EXPECT_EQ(estimate.TimeFor(1e12), absl::ZeroDuration());
  EXPECT_EQ(estimate.Remaining(kStart), absl::ZeroDuration());
}

TEST(LoadEstimateTest, TakesTheRateOfTheFirstBatch) {
  LoadEstimate estimate;
  const int64_t id = estimate.Started(1000, kStart);
  EXPECT_FALSE(estimate.idle());
  estimate.Finished(id, 1000, kStart + absl::Milliseconds(500));
  EXPECT_TRUE(estimate.idle());
  EXPECT_EQ(estimate.TimeFor(10), absl::Milliseconds(5));
}

TEST(LoadEstimateTest, FollowsAChangedRate) {
  LoadEstimate estimate;
  estimate.Finished(estimate.Started(1000, kStart), 1000, kStart + absl::Seconds(1));
  // Ten times as fast from now on: after half a second of it the old rate has hardly any weight.
  for (int i = 0; i < 50; ++i) {
    estimate.Finished(estimate.Started(100, kStart), 100, kStart + absl::Milliseconds(10));
  }
  EXPECT_NEAR(absl::ToDoubleSeconds(estimate.TimeFor(1000)), 0.1, 0.1);
}

TEST(LoadEstimateTest, LearnsNothingFromABatchThatWasNotComputed) {
  LoadEstimate estimate;
  estimate.Finished(estimate.Started(1000, kStart), 0, kStart + absl::Seconds(9));
  EXPECT_EQ(estimate.TimeFor(1000), absl::ZeroDuration());
}

TEST(LoadEstimateTest, AddsWhatRunningBatchesStillTake) {
  LoadEstimate estimate;
  estimate.Finished(estimate.Started(1000, kStart), 1000, kStart + absl::Seconds(1));
  estimate.Started(100, kStart);
  const int64_t second = estimate.Started(50, kStart);
  EXPECT_EQ(estimate.Remaining(kStart + absl::Milliseconds(10)), absl::Milliseconds(90 + 40));
  EXPECT_EQ(estimate.Remaining(kStart + absl::Milliseconds(70)), absl::Milliseconds(30)) << "one is overdue";
  estimate.Finished(second, 0, kStart);
  EXPECT_EQ(estimate.Remaining(kStart), absl::Milliseconds(100));
}

}  // namespace
}  // namespace attention::server
