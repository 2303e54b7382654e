#pragma once

#include <grpcpp/channel.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "attention/v1/attention.grpc.pb.h"
#include "client/attention_client.h"
#include "client/internal/weight_calls.h"
#include "grpc/health/v1/health.grpc.pb.h"

namespace attention {

// One channel to the server and the calls over it, each as its namesake in Client. Thread-safe. May go while calls are
// under way: each call holds the channel that it needs.
class Connection {
 public:
  // REQUIRES: CheckOptions(options) is OK.
  Connection(const std::string& target, const ClientOptions& options);

  absl::Status WaitUntilReady(std::chrono::nanoseconds timeout) const;

  absl::StatusOr<AttendReply> Attend(const AttendRequest& request, const CallOptions& options) const;
  void AttendAsync(const AttendRequest& request, std::function<void(absl::StatusOr<AttendReply>)> done,
                   const CallOptions& options) const;
  std::unique_ptr<AttendStream> OpenStream(const CallOptions& options) const;

  const WeightCalls& weights() const { return weights_; }
  absl::StatusOr<LoadedCheckpoint> UploadCheckpoint(const CheckpointUpload& upload, const CallOptions& options) const;

  absl::Status CheckHealth(const std::string& service, const CallOptions& options) const;

 private:
  // Constant after construction.
  const std::string target_;
  const ClientOptions options_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::AttentionService::Stub> attention_;
  const WeightCalls weights_;
  const std::unique_ptr<grpc::health::v1::Health::Stub> health_;
};

}  // namespace attention
