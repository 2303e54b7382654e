#include "server/rpc/grpc_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "server/admission/retry.h"

namespace attention::server {
namespace {

// Both libraries number the codes like the gRPC specification, so the mapping keeps the numbers.
TEST(GrpcStatusTest, KeepsEveryCode) {
  for (int code = 0; code <= 16; ++code) {
    EXPECT_EQ(ToGrpcCode(static_cast<absl::StatusCode>(code)), code);
  }
}

TEST(GrpcStatusTest, MapsAnUnknownCodeToUnknown) {
  EXPECT_EQ(ToGrpcCode(static_cast<absl::StatusCode>(99)), grpc::StatusCode::UNKNOWN);
}

TEST(GrpcStatusTest, KeepsTheMessage) {
  const grpc::Status status = ToGrpcStatus(absl::NotFoundError("no such thing"));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(status.error_message(), "no such thing");
}

TEST(GrpcStatusTest, IsOkForOk) { EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok()); }

TEST(GrpcStatusTest, TruncatesALongMessage) {
  EXPECT_EQ(TruncateMessage(std::string(1024, 'a')), std::string(1024, 'a'));
  EXPECT_EQ(TruncateMessage(std::string(1025, 'a')), std::string(1024, 'a'));
}

TEST(GrpcStatusTest, TruncatesBetweenCharacters) {
  // "…" has three bytes; the last one is byte 1025.
  EXPECT_EQ(TruncateMessage(std::string(1022, 'a') + "…"), std::string(1022, 'a'));
  EXPECT_EQ(TruncateMessage(std::string(1021, 'a') + "…b"), std::string(1021, 'a') + "…");
}

TEST(GrpcStatusTest, TruncatesBytesThatAreNotUtf8) { EXPECT_EQ(TruncateMessage(std::string(2000, '\x80')), ""); }

TEST(GrpcStatusTest, SetsAPushbackForUnavailableOnly) {
  EXPECT_EQ(RetryPushbackMs(absl::UnavailableError("stopping")), std::nullopt);
  EXPECT_EQ(RetryPushbackMs(absl::OkStatus()), std::nullopt);
  const absl::Status full = absl::UnavailableError("full");
  EXPECT_THAT(RetryPushbackMs(WithRetryAfter(full, absl::Milliseconds(40))),
              testing::Optional(testing::AllOf(testing::Ge(40), testing::Le(50))));
  EXPECT_EQ(RetryPushbackMs(WithRetryAfter(full, absl::Microseconds(1))), 1);
  EXPECT_EQ(RetryPushbackMs(WithRetryAfter(full, kNeverRetry)), -1);
}

}  // namespace
}  // namespace attention::server
