#include "tests/testing/server/health.h"

#include <string>

namespace attention::test {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

HealthWatch::HealthWatch(const std::shared_ptr<grpc::Channel>& channel, const std::string& service)
    : stub_(grpc::health::v1::Health::NewStub(channel)) {
  HealthCheckRequest request;
  request.set_service(service);
  reader_ = stub_->Watch(&context_, request);
}

HealthWatch::~HealthWatch() {
  context_.TryCancel();
  reader_->Finish();
}

HealthCheckResponse::ServingStatus HealthWatch::Next() {
  HealthCheckResponse response;
  return reader_->Read(&response) ? response.status() : HealthCheckResponse::UNKNOWN;
}

}  // namespace attention::test
