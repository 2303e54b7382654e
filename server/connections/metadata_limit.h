#pragma once

#include <grpcpp/support/server_interceptor.h>

#include <cstdint>
#include <memory>

namespace attention::server {

// Ends each call with more than `max_bytes` of metadata (names and values) with RESOURCE_EXHAUSTED.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> MakeMetadataLimit(int64_t max_bytes);

}  // namespace attention::server
