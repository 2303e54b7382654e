#include "client/callback_threads.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>

#include <memory>

#include "grpc/health/v1/health.grpc.pb.h"

namespace attention {
namespace {

// A channel that never connects, and the one call that makes it take its share in the threads.
struct KeptCall {
  KeptCall() {
    stub->async()->Check(&context, &request, &response, [](const grpc::Status&) {});
  }

  // gRPC makes a channel without credentials one whose calls all fail at once.
  std::unique_ptr<grpc::health::v1::Health::Stub> stub =
      grpc::health::v1::Health::NewStub(grpc::CreateChannel("", nullptr));
  grpc::ClientContext context;
  grpc::health::v1::HealthCheckRequest request;
  grpc::health::v1::HealthCheckResponse response;
};

}  // namespace

void KeepCallbackThreads() {
  // Never deleted: that is its purpose. "used" keeps the pointer itself, for those who look for leaks.
  [[gnu::used]] static const KeptCall* const kept = new KeptCall;
}

}  // namespace attention
