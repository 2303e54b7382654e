#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace attention::server {

// When the caller gives up; infinite if he set no deadline.
absl::Time DeadlineOf(const grpc::CallbackServerContext& call);

// Ends a unary call with `status`; with UNAVAILABLE goes the trailer kRetryPushbackKey. Nothing of the call may be
// touched afterwards.
void FinishCall(grpc::CallbackServerContext* call, grpc::ServerUnaryReactor* reactor, const absl::Status& status);

}  // namespace attention::server
