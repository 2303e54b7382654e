#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "attention/v1/weights.grpc.pb.h"
#include "client/attention_client.h"

namespace attention {

// The calls of attention.v1.WeightService but the upload, each as its namesake in Client. Thread-safe.
class WeightCalls {
 public:
  explicit WeightCalls(std::unique_ptr<v1::WeightService::Stub> stub) : stub_(std::move(stub)) {}

  absl::StatusOr<std::vector<WeightSetInfo>> List(const std::string& prefix, const CallOptions& options) const;
  absl::StatusOr<WeightSetInfo> Get(const std::string& name, const VersionChoice& which,
                                    const CallOptions& options) const;
  absl::StatusOr<LoadedCheckpoint> Load(const std::string& checkpoint, const CheckpointOptions& checkpoint_options,
                                        const CallOptions& options) const;
  absl::StatusOr<int64_t> Unload(const std::string& checkpoint, const CallOptions& options) const;
  absl::StatusOr<std::vector<int64_t>> Delete(const std::string& checkpoint, int64_t version,
                                              const CallOptions& options) const;
  absl::StatusOr<int64_t> SetAlias(const AliasChange& change, const CallOptions& options) const;

 private:
  const std::unique_ptr<v1::WeightService::Stub> stub_;  // constant after construction
};

// One UploadCheckpoint call, as Client::UploadCheckpoint, which waits for its end. Messages are of at most
// `max_message_bytes` or 1 MiB, whichever is less.
absl::StatusOr<v1::LoadCheckpointResponse> SendCheckpoint(v1::WeightService::Stub& stub, const CheckpointUpload& upload,
                                                          int64_t max_message_bytes, const CallOptions& options);

}  // namespace attention
