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

// The one way from our errors to gRPC's: the same code, and the text as CutMessage leaves it.
grpc::Status ToGrpcStatus(const absl::Status& status);

// The number that gRPC knows a code by. Every code has one.
grpc::StatusCode ToGrpcCode(absl::StatusCode code);

// At most 1024 bytes of a text, cut between two characters of UTF-8: statuses travel in headers, whose size is limited.
std::string CutMessage(absl::string_view message);

// The trailer by which a server tells gRPC clients when to send a refused call again, in milliseconds.
inline constexpr char kRetryPushbackKey[] = "grpc-retry-pushback-ms";

// Its value: how long to wait before the request is sent again, for UNAVAILABLE; else 0.
int64_t RetryPushbackMs(const absl::Status& status);

// When the caller gives up; infinite if he set no deadline.
absl::Time DeadlineOf(const grpc::CallbackServerContext& call);

// Ends a unary call with `status`; with UNAVAILABLE goes the trailer kRetryPushbackKey. Nothing of the call may be
// touched afterwards.
void FinishCall(grpc::CallbackServerContext* call, grpc::ServerUnaryReactor* reactor, const absl::Status& status);

}  // namespace attention::server
