#pragma once

#include <grpcpp/support/status.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "attention/v1/attention.pb.h"
#include "attention/v1/weights.pb.h"
#include "client/attention_client.h"

namespace attention {

// The status with a canonical code as it travels in an integer, and its text. A number that is no canonical code
// becomes UNKNOWN, and the text says which it was.
absl::Status ToAbslStatus(int code, const std::string& message);

absl::Status ToAbslStatus(const grpc::Status& status);

// Between the messages of the protocol and the plain types of the public header. Tensor data are copied once on the way
// out and moved on the way in.

v1::AttendRequest ToProto(const AttendRequest& request);

// All of the request but its tensors.
v1::AttendRequest ToProtoWithoutTensors(const AttendRequest& request);

// INTERNAL if a tensor of the reply is not one: unknown type, or shape and bytes disagree.
absl::StatusOr<AttendReply> FromProto(v1::AttendResponse response);

// An error of the request, or a reply that is none, is the status in the item.
AttendStream::Item FromProto(v1::AttendStreamResponse response);

WeightSetInfo FromProto(const v1::WeightSetInfo& info);

LoadedCheckpoint FromProto(const v1::LoadCheckpointResponse& response);

}  // namespace attention
