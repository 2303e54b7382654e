#include "server/admission/retry.h"

#include <gtest/gtest.h>

#include <set>

namespace attention::server {
namespace {

TEST(RetryTest, AStatusHasNoAdviceByItself) {
  EXPECT_EQ(RetryAfter(absl::UnavailableError("server: the server is stopping")), std::nullopt);
  EXPECT_EQ(RetryAfter(absl::OkStatus()), std::nullopt);
}

TEST(RetryTest, AddsUpToAQuarterToTheWait) {
  std::set<absl::Duration> waits;
  for (int i = 0; i < 50; ++i) {
    const auto wait = RetryAfter(WithRetryAfter(absl::UnavailableError("full"), absl::Milliseconds(100)));
    ASSERT_TRUE(wait.has_value());
    EXPECT_GE(*wait, absl::Milliseconds(100));
    EXPECT_LE(*wait, absl::Milliseconds(125));
    waits.insert(*wait);
  }
  EXPECT_GT(waits.size(), 40u) << "clients that are rejected together must not return together";
}

TEST(RetryTest, KeepsCodeAndMessage) {
  const absl::Status status = WithRetryAfter(absl::UnavailableError("full"), kNeverRetry);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "full");
  EXPECT_EQ(RetryAfter(status), kNeverRetry);
}

}  // namespace
}  // namespace attention::server
