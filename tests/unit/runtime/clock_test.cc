#include "server/runtime/clock.h"

#include <gtest/gtest.h>

#include "absl/time/clock.h"

namespace attention::server {
namespace {

TEST(SteadyNowTest, NeverGoesBack) {
  absl::Time last = SteadyNow();
  for (int i = 0; i < 1000; ++i) {
    const absl::Time now = SteadyNow();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST(SteadyNowTest, StartsAtTheWallClock) { EXPECT_LT(absl::AbsDuration(SteadyNow() - absl::Now()), absl::Hours(1)); }

}  // namespace
}  // namespace attention::server
