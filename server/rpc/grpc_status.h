#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>
#include <grpcpp/support/status.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace attention::server {

// Converts a status to gRPC's: the same code, and the message shortened by TruncateMessage. The only such conversion.
grpc::Status ToGrpcStatus(const absl::Status& status);

// The gRPC code with the same meaning. UNKNOWN for a number that is no absl code.
grpc::StatusCode ToGrpcCode(absl::StatusCode code);

// At most the first 1024 bytes of a message, cut between UTF-8 characters. Statuses are sent in headers, whose size is
// limited.
std::string TruncateMessage(absl::string_view message);

// The trailer that tells gRPC clients after how many milliseconds to retry a rejected call.
inline constexpr char kRetryPushbackKey[] = "grpc-retry-pushback-ms";

// The value of that trailer: milliseconds to wait before a retry. 0 unless the status is UNAVAILABLE.
int64_t RetryPushbackMs(const absl::Status& status);

// The deadline that the client set; infinite if it set none.
absl::Time DeadlineOf(const grpc::CallbackServerContext& call);

// Finishes a unary call with `status`, and adds the trailer kRetryPushbackKey if it is UNAVAILABLE. Afterwards the call
// and its messages must not be accessed.
void FinishCall(grpc::CallbackServerContext* call, grpc::ServerUnaryReactor* reactor, const absl::Status& status);

}  // namespace attention::server
