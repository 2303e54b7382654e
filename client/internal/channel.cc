#include "client/internal/channel.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <limits>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/internal/field_error.h"
#include "grpc/health/v1/health.grpc.pb.h"

namespace attention {
namespace {

// A channel that never connects, and one call that makes it use the callback threads.
struct KeptCall {
  KeptCall() {
    stub->async()->Check(&context, &request, &response, [](const grpc::Status&) {});
  }

  // Without credentials gRPC creates a channel whose calls all fail at once.
  std::unique_ptr<grpc::health::v1::Health::Stub> stub =
      grpc::health::v1::Health::NewStub(grpc::CreateChannel("", nullptr));
  grpc::ClientContext context;
  grpc::health::v1::HealthCheckRequest request;
  grpc::health::v1::HealthCheckResponse response;
};

constexpr int kMaxMessageBytes = std::numeric_limits<int32_t>::max();
constexpr int kMaxAttempts = 5;

// Connects soon after a server has started. gRPC's default is to wait a second after the first refused connection.
constexpr int kInitialReconnectBackoffMs = 100;
constexpr int kMaxReconnectBackoffMs = 5000;

// Detects within a call that the peer has vanished. gRPC's server closes connections that ping more often than it
// allows, so the server must allow this interval.
constexpr int kKeepaliveTimeMs = 30000;
constexpr int kKeepaliveTimeoutMs = 10000;

std::string Seconds(std::chrono::milliseconds time) {
  return absl::StrFormat("\"%d.%03ds\"", time.count() / 1000, time.count() % 1000);
}

grpc::ChannelArguments CommonArguments(const ClientOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(static_cast<int>(options.max_message_bytes));
  arguments.SetMaxSendMessageSize(static_cast<int>(options.max_message_bytes));
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);  // no bound
  return arguments;
}

}  // namespace

void KeepCallbackThreads() {
  // Never deleted, by design. "used" keeps the pointer, so that leak checkers find the object reachable.
  [[gnu::used]] static const KeptCall* const kept = new KeptCall;
}

absl::Status CheckOptions(const ClientOptions& options) {
  const int64_t initial = options.retry_initial_backoff.count(), max = options.retry_max_backoff.count();
  if (options.max_message_bytes < 1 || options.max_message_bytes > kMaxMessageBytes) {
    return FieldError("max_message_bytes", absl::StrCat("1 to ", kMaxMessageBytes), options.max_message_bytes);
  }
  if (options.max_attempts < 1 || options.max_attempts > kMaxAttempts) {
    return FieldError("max_attempts", absl::StrCat("1 to ", kMaxAttempts), options.max_attempts);
  }
  if (initial < 1) return FieldError("retry_initial_backoff", "at least 1 ms", absl::StrCat(initial, " ms"));
  if (max < initial) {
    return FieldError("retry_max_backoff", absl::StrCat("at least ", initial, " ms as in retry_initial_backoff"),
                      absl::StrCat(max, " ms"));
  }
  return absl::OkStatus();
}

std::string ServiceConfigJson(const ClientOptions& options) {
  if (options.max_attempts == 1) return "{}";
  return absl::StrCat(R"({"methodConfig":[{"name":[)"
                      R"({"service":"attention.v1.AttentionService","method":"Attend"},)"
                      R"({"service":"attention.v1.WeightService","method":"ListWeightSets"},)"
                      R"({"service":"attention.v1.WeightService","method":"GetWeightSet"},)"
                      R"({"service":"grpc.health.v1.Health","method":"Check"}],)"
                      R"("retryPolicy":{"maxAttempts":)",
                      options.max_attempts, R"(,"initialBackoff":)", Seconds(options.retry_initial_backoff),
                      R"(,"maxBackoff":)", Seconds(options.retry_max_backoff),
                      R"(,"backoffMultiplier":2,"retryableStatusCodes":["UNAVAILABLE"]}}]})");
}

std::shared_ptr<grpc::Channel> OpenChannel(const std::string& target, const ClientOptions& options) {
  grpc::ChannelArguments arguments = CommonArguments(options);
  arguments.SetLoadBalancingPolicyName("round_robin");
  arguments.SetServiceConfigJSON(ServiceConfigJson(options));
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 1);
  // A call larger than this buffer is not retried. gRPC's default is 256 KiB.
  arguments.SetInt(GRPC_ARG_PER_RPC_RETRY_BUFFER_SIZE, kMaxMessageBytes);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kInitialReconnectBackoffMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxReconnectBackoffMs);
  return grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), arguments);
}

std::shared_ptr<grpc::Channel> OpenUploadChannel(const std::string& target, const ClientOptions& options) {
  grpc::ChannelArguments arguments = CommonArguments(options);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  return grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace attention
