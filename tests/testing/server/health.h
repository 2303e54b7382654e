#pragma once

#include <grpcpp/channel.h>

#include <memory>
#include <string>

#include "grpc/health/v1/health.grpc.pb.h"

namespace attention::test {

// One Watch call of grpc.health.v1.
class HealthWatch {
 public:
  HealthWatch(const std::shared_ptr<grpc::Channel>& channel, const std::string& service);
  ~HealthWatch();

  // Waits for the next status. Returns UNKNOWN at the end of the call.
  grpc::health::v1::HealthCheckResponse::ServingStatus Next();

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::health::v1::Health::Stub> stub_;
  std::unique_ptr<grpc::ClientReader<grpc::health::v1::HealthCheckResponse>> reader_;
};

}  // namespace attention::test
