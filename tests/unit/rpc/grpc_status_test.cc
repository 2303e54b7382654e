#include "server/rpc/grpc_status.h"

#include <gtest/gtest.h>

#include <string>

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
  EXPECT_EQ(RetryPushbackMs(absl::UnavailableError("full")), 50);
  EXPECT_EQ(RetryPushbackMs(absl::ResourceExhaustedError("too large")), 0);
  EXPECT_EQ(RetryPushbackMs(absl::OkStatus()), 0);
}

}  // namespace
}  // namespace attention::server
