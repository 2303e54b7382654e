#include <gmock/gmock.h>

#include "client/internal/conversion.h"
#include "tests/testing/matchers.h"

namespace attention {
namespace {

using test::IsOk;
using test::StatusIs;

TEST(ClientStatusTest, EveryCanonicalCodeKeepsItsNameAndText) {
  struct Case {
    grpc::StatusCode code;
    absl::StatusCode expected;
  };
  const Case cases[] = {
      {grpc::StatusCode::CANCELLED, absl::StatusCode::kCancelled},
      {grpc::StatusCode::UNKNOWN, absl::StatusCode::kUnknown},
      {grpc::StatusCode::INVALID_ARGUMENT, absl::StatusCode::kInvalidArgument},
      {grpc::StatusCode::DEADLINE_EXCEEDED, absl::StatusCode::kDeadlineExceeded},
      {grpc::StatusCode::NOT_FOUND, absl::StatusCode::kNotFound},
      {grpc::StatusCode::ALREADY_EXISTS, absl::StatusCode::kAlreadyExists},
      {grpc::StatusCode::PERMISSION_DENIED, absl::StatusCode::kPermissionDenied},
      {grpc::StatusCode::RESOURCE_EXHAUSTED, absl::StatusCode::kResourceExhausted},
      {grpc::StatusCode::FAILED_PRECONDITION, absl::StatusCode::kFailedPrecondition},
      {grpc::StatusCode::ABORTED, absl::StatusCode::kAborted},
      {grpc::StatusCode::OUT_OF_RANGE, absl::StatusCode::kOutOfRange},
      {grpc::StatusCode::UNIMPLEMENTED, absl::StatusCode::kUnimplemented},
      {grpc::StatusCode::INTERNAL, absl::StatusCode::kInternal},
      {grpc::StatusCode::UNAVAILABLE, absl::StatusCode::kUnavailable},
      {grpc::StatusCode::DATA_LOSS, absl::StatusCode::kDataLoss},
      {grpc::StatusCode::UNAUTHENTICATED, absl::StatusCode::kUnauthenticated},
  };
  for (const Case& c : cases) {
    EXPECT_THAT(ToAbslStatus(grpc::Status(c.code, "the text")), StatusIs(c.expected, "the text"));
    EXPECT_THAT(ToAbslStatus(static_cast<int>(c.code), "the text"), StatusIs(c.expected, "the text"));
  }
  EXPECT_THAT(ToAbslStatus(grpc::Status::OK), IsOk());
}

TEST(ClientStatusTest, AnotherNumberIsUnknownAndStaysInTheText) {
  EXPECT_THAT(ToAbslStatus(17, "the text"), StatusIs(absl::StatusCode::kUnknown, "status code 17: the text"));
  EXPECT_THAT(ToAbslStatus(-1, "the text"), StatusIs(absl::StatusCode::kUnknown, "status code -1: the text"));
}

}  // namespace
}  // namespace attention
