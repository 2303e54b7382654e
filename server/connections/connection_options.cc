#include "server/connections/connection_options.h"

#include <grpc/impl/codegen/compression_types.h>
#include <grpcpp/resource_quota.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "server/connections/metadata_limit.h"

namespace attention::server {
namespace {

// Clients may send keepalive pings every 10 s, also without calls; gRPC's default closes their connections. The limit
// is half of that, so a ping that arrives early is accepted.
constexpr int kMinPingIntervalMs = 5000;

int Milliseconds(absl::Duration duration) {
  const int64_t max = std::numeric_limits<int>::max();  // means "unlimited" to gRPC
  return static_cast<int>(std::min(absl::ToInt64Milliseconds(duration), max));
}

void SetKeepalive(const ConnectionOptions& options, grpc::ServerBuilder& builder) {
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kMinPingIntervalMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, Milliseconds(options.keepalive_time));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Milliseconds(options.keepalive_timeout));
  // Otherwise an idle stream is pinged twice only.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
}

void SetAges(const ConnectionOptions& options, grpc::ServerBuilder& builder) {
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, Milliseconds(options.max_idle));
  if (options.max_age == absl::ZeroDuration()) return;
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS, Milliseconds(options.max_age));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, Milliseconds(options.max_age_grace));
}

// A few bytes of a compressed message can stand for gigabytes. Calls that send one end with UNIMPLEMENTED, and nothing
// is decompressed before that.
void RefuseCompression(grpc::ServerBuilder& builder) {
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
}

void LimitMetadata(const ConnectionOptions& options, grpc::ServerBuilder& builder) {
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, static_cast<int>(options.max_metadata_bytes));
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> interceptors;
  interceptors.push_back(MakeMetadataLimit(options.max_call_metadata_bytes));
  builder.experimental().SetInterceptorCreators(std::move(interceptors));
}

}  // namespace

void SetConnectionOptions(const ConnectionOptions& options, grpc::ServerBuilder& builder) {
  SetKeepalive(options, builder);
  SetAges(options, builder);
  RefuseCompression(builder);
  LimitMetadata(options, builder);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options.max_concurrent_calls);
  grpc::ResourceQuota quota("attention_server");
  quota.Resize(static_cast<size_t>(options.max_receive_bytes));
  builder.SetResourceQuota(quota);
}

}  // namespace attention::server
