#include "server/rpc/grpc_status.h"

#include <algorithm>
#include <chrono>
#include <string>

#include "absl/time/clock.h"
#include "server/admission/retry.h"
#include "server/runtime/clock.h"

namespace attention::server {
namespace {

constexpr size_t kMaxMessageBytes = 1024;

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(ToGrpcCode(status.code()), TruncateMessage(status.message()));
}

grpc::StatusCode ToGrpcCode(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return grpc::StatusCode::OK;
    case absl::StatusCode::kCancelled:
      return grpc::StatusCode::CANCELLED;
    case absl::StatusCode::kInvalidArgument:
      return grpc::StatusCode::INVALID_ARGUMENT;
    case absl::StatusCode::kDeadlineExceeded:
      return grpc::StatusCode::DEADLINE_EXCEEDED;
    case absl::StatusCode::kNotFound:
      return grpc::StatusCode::NOT_FOUND;
    case absl::StatusCode::kAlreadyExists:
      return grpc::StatusCode::ALREADY_EXISTS;
    case absl::StatusCode::kPermissionDenied:
      return grpc::StatusCode::PERMISSION_DENIED;
    case absl::StatusCode::kResourceExhausted:
      return grpc::StatusCode::RESOURCE_EXHAUSTED;
    case absl::StatusCode::kFailedPrecondition:
      return grpc::StatusCode::FAILED_PRECONDITION;
    case absl::StatusCode::kAborted:
      return grpc::StatusCode::ABORTED;
    case absl::StatusCode::kOutOfRange:
      return grpc::StatusCode::OUT_OF_RANGE;
    case absl::StatusCode::kUnimplemented:
      return grpc::StatusCode::UNIMPLEMENTED;
    case absl::StatusCode::kInternal:
      return grpc::StatusCode::INTERNAL;
    case absl::StatusCode::kUnavailable:
      return grpc::StatusCode::UNAVAILABLE;
    case absl::StatusCode::kDataLoss:
      return grpc::StatusCode::DATA_LOSS;
    case absl::StatusCode::kUnauthenticated:
      return grpc::StatusCode::UNAUTHENTICATED;
    case absl::StatusCode::kUnknown:
    default:
      return grpc::StatusCode::UNKNOWN;
  }
}

std::string TruncateMessage(absl::string_view message) {
  if (message.size() <= kMaxMessageBytes) return std::string(message);
  size_t end = kMaxMessageBytes;
  const auto continues = [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; };
  while (end > 0 && continues(message[end])) --end;
  return std::string(message.substr(0, end));
}

std::optional<int64_t> RetryPushbackMs(const absl::Status& status) {
  const std::optional<absl::Duration> wait = RetryAfter(status);
  if (!wait) return std::nullopt;
  return *wait == kNeverRetry ? -1 : std::max<int64_t>(1, absl::ToInt64Milliseconds(*wait));
}

absl::Time DeadlineOf(const grpc::CallbackServerContext& call) {
  const std::chrono::system_clock::time_point deadline = call.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) return absl::InfiniteFuture();
  return SteadyNow() + (absl::FromChrono(deadline) - absl::Now());
}

bool UnaryCall::Enter(absl::StatusOr<Ticket> ticket) {
  if (ticket.ok()) {
    ticket_ = *std::move(ticket);
  } else {
    End(ticket.status());
  }
  return ticket.ok();
}

void UnaryCall::End(const absl::Status& status) {
  if (const std::optional<int64_t> pushback = RetryPushbackMs(status)) {
    call_->AddTrailingMetadata(kRetryPushbackKey, std::to_string(*pushback));
  }
  Finish(ToGrpcStatus(status));
}

}  // namespace attention::server
