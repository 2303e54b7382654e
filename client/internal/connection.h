#pragma once

#include <grpc/support/time.h>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "attention/v1/attention.grpc.pb.h"
#include "attention/v1/weights.grpc.pb.h"
#include "client/attention_client.h"
#include "client/internal/channel.h"
#include "client/internal/conversion.h"
#include "grpc/health/v1/health.grpc.pb.h"

namespace attention {

// One channel to the server and the stubs that use it, shared by the copies of a Client. Thread-safe. May be destroyed
// while calls are in progress: each call holds the channel.
struct Connection {
  // REQUIRES: CheckOptions(options) is OK.
  Connection(const std::string& target, const ClientOptions& options)
      : target(target), options(options), channel(OpenChannel(target, options)) {}

  const std::string target;
  const ClientOptions options;
  const std::shared_ptr<grpc::Channel> channel;
  const std::unique_ptr<v1::AttentionService::Stub> attention = v1::AttentionService::NewStub(channel);
  const std::unique_ptr<v1::WeightService::Stub> weights = v1::WeightService::NewStub(channel);
  const std::unique_ptr<grpc::health::v1::Health::Stub> health = grpc::health::v1::Health::NewStub(channel);
};

// The end of a timeout that begins now. Uses the monotonic clock, which setting the system clock does not change.
// gRPC's arithmetic saturates, so any timeout is valid.
inline gpr_timespec DeadlineAfter(std::chrono::nanoseconds timeout) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(timeout.count(), GPR_TIMESPAN));
}

// The deadline of a call that begins now.
inline gpr_timespec DeadlineOf(const CallOptions& options) {
  return options.timeout ? DeadlineAfter(*options.timeout) : gpr_inf_future(GPR_CLOCK_MONOTONIC);
}

// Calls a unary method of a generated stub and blocks until its reply.
template <typename Stub, typename Request, typename Response>
absl::StatusOr<Response> Call(Stub& stub, grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                              const Request& request, gpr_timespec deadline) {
  grpc::ClientContext context;
  context.set_deadline(deadline);
  Response response;
  if (absl::Status status = ToAbslStatus((stub.*method)(&context, request, &response)); !status.ok()) return status;
  return response;
}

}  // namespace attention
