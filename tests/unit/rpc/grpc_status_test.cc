#include "server/rpc/grpc_status.h"

#include <gtest/gtest.h>

#include <string>

namespace attention::server {
namespace {

// Both number the codes as the gRPC specification does, so the mapping must keep the number.
TEST(GrpcStatusTest, KeepsEveryCode) {
  for (int code = 0; code <= 16; ++code) {
    EXPECT_EQ(ToGrpcCode(static_cast<absl::StatusCode>(code)), code);
  }
}

TEST(GrpcStatusTest, MapsACodeThatNobodyKnowsToUnknown) {
  EXPECT_EQ(ToGrpcCode(static_cast<absl::StatusCode>(99)), grpc::StatusCode::UNKNOWN);
}

TEST(GrpcStatusTest, KeepsTheText) {
  const grpc::Status status = ToGrpcStatus(absl::NotFoundError("no such thing"));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(status.error_message(), "no such thing");
}

TEST(GrpcStatusTest, IsOkForOk) { EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok()); }

TEST(GrpcStatusTest, CutsALongText) {
  EXPECT_EQ(CutMessage(std::string(1024, 'a')), std::string(1024, 'a'));
  EXPECT_EQ(CutMessage(std::string(1025, 'a')), std::string(1024, 'a'));
}

TEST(GrpcStatusTest, CutsBetweenCharacters) {
  // "…" takes three bytes; the third one of the last would be the 1025th.
  EXPECT_EQ(CutMessage(std::string(1022, 'a') + "…"), std::string(1022, 'a'));
  EXPECT_EQ(CutMessage(std::string(1021, 'a') + "…b"), std::string(1021, 'a') + "…");
}

TEST(GrpcStatusTest, CutsBytesThatAreNoText) { EXPECT_EQ(CutMessage(std::string(2000, '\x80')), ""); }

TEST(GrpcStatusTest, AsksForRetryOfWhatIsUnavailableOnly) {
  EXPECT_EQ(RetryPushbackMs(absl::UnavailableError("full")), 50);
  EXPECT_EQ(RetryPushbackMs(absl::ResourceExhaustedError("too large")), 0);
  EXPECT_EQ(RetryPushbackMs(absl::OkStatus()), 0);
}

}  // namespace
}  // namespace attention::server
