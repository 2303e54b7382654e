#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "attention/v1/weights.grpc.pb.h"
#include "client/attention_client.h"

namespace attention {

// One UploadCheckpoint call, as Client::UploadCheckpoint, which waits for its end. Messages are of at most
// `max_message_bytes` or 1 MiB, whichever is less.
absl::StatusOr<v1::LoadCheckpointResponse> SendCheckpoint(v1::WeightService::Stub& stub, const CheckpointUpload& upload,
                                                          int64_t max_message_bytes, const CallOptions& options);

}  // namespace attention
