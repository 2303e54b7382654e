#pragma once

#include <grpcpp/client_context.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/deadline.h"
#include "client/grpc_status.h"

namespace attention {

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
