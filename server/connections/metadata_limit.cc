#include "server/connections/metadata_limit.h"

#include <grpc/grpc.h>
#include <grpcpp/server_context.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace attention::server {
namespace {

using grpc::experimental::Interceptor;
using grpc::experimental::ServerRpcInfo;

int64_t MetadataBytes(const grpc::ServerContextBase& call) {
  int64_t bytes = 0;
  for (const auto& [name, value] : call.client_metadata()) bytes += static_cast<int64_t>(name.size() + value.size());
  return bytes;
}

// gRPC asks for an interceptor when a call has arrived, before the call's handler runs. No call needs one: those within
// the limit go on, and the others end here.
class MetadataLimit final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit MetadataLimit(int64_t max_bytes) : max_bytes_(max_bytes) {}

  Interceptor* CreateServerInterceptor(ServerRpcInfo* info) override {
    const int64_t bytes = MetadataBytes(*info->server_context());
    if (bytes > max_bytes_) {
      const std::string message = absl::StrCat("metadata: expected at most ", max_bytes_, " bytes, got ", bytes);
      grpc_call_cancel_with_status(info->server_context()->c_call(), GRPC_STATUS_RESOURCE_EXHAUSTED, message.c_str(),
                                   nullptr);
    }
    return nullptr;
  }

 private:
  const int64_t max_bytes_;
};

}  // namespace

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> MakeMetadataLimit(int64_t max_bytes) {
  return std::make_unique<MetadataLimit>(max_bytes);
}

}  // namespace attention::server
