#pragma once

#include <grpc/support/time.h>
#include <grpcpp/client_context.h>

#include <chrono>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/attention_client.h"
#include "client/internal/conversion.h"

namespace attention {

// The time after which a call that may take `timeout` has failed. Of the monotonic clock, so that a clock that is set
// moves no deadline; gRPC's arithmetic saturates, so that any timeout is fine.
inline gpr_timespec DeadlineAfter(std::chrono::nanoseconds timeout) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(timeout.count(), GPR_TIMESPAN));
}

// That of a call which begins now.
inline gpr_timespec DeadlineOf(const CallOptions& options) {
  return options.timeout ? DeadlineAfter(*options.timeout) : gpr_inf_future(GPR_CLOCK_MONOTONIC);
}

inline void SetDeadline(const CallOptions& options, grpc::ClientContext& context) {
  if (options.timeout) context.set_deadline(DeadlineAfter(*options.timeout));
}

// One call by a method of a generated stub that waits for its reply.
template <typename Stub, typename Request, typename Response>
absl::StatusOr<Response> Call(Stub& stub, grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                              const Request& request, gpr_timespec deadline) {
  grpc::ClientContext context;
  context.set_deadline(deadline);
  Response response;
  if (absl::Status status = ToAbslStatus((stub.*method)(&context, request, &response)); !status.ok()) return status;
  return response;
}

template <typename Stub, typename Request, typename Response>
absl::StatusOr<Response> Call(Stub& stub, grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                              const Request& request, const CallOptions& options) {
  return Call(stub, method, request, DeadlineOf(options));
}

}  // namespace attention
