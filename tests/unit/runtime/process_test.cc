#include "server/runtime/process.h"

#include <gtest/gtest.h>
#include <sched.h>

namespace attention::server {
namespace {

TEST(ProcessTest, RoundsAQuotaUp) {
  EXPECT_EQ(QuotaCpus("200000 100000\n"), 2);
  EXPECT_EQ(QuotaCpus("150000 100000\n"), 2);
  EXPECT_EQ(QuotaCpus("1000 100000\n"), 1);
  EXPECT_EQ(QuotaCpus("9223372036854775807 1\n"), 1 << 20);
}

TEST(ProcessTest, ReturnsZeroWithoutAQuota) {
  for (const char* text : {"max 100000\n", "", "nonsense", "1 0", "-1 100000", "1 2 3"}) {
    EXPECT_EQ(QuotaCpus(text), 0) << text;
  }
}

TEST(ProcessTest, CountsTheCpusOfTheAffinityMask) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(UsableCpus(), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
}

}  // namespace
}  // namespace attention::server
