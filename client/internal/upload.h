#pragma once

#include "absl/status/statusor.h"
#include "attention/v1/weights.pb.h"
#include "client/attention_client.h"
#include "client/internal/connection.h"

namespace attention {

// Makes one UploadCheckpoint call, as Client::UploadCheckpoint, on a channel of its own, and blocks until it ends. Each
// message has at most `max_message_bytes` or 1 MiB, whichever is less.
absl::StatusOr<v1::LoadCheckpointResponse> SendCheckpoint(const Connection& connection, const CheckpointUpload& upload,
                                                          const CallOptions& options);

}  // namespace attention
