#pragma once

#include <cstdint>
#include <memory>

#include "attention/v1/attention.grpc.pb.h"
#include "client/attention_client.h"

namespace attention {

// Starts an AttendStream call. The stub need not stay.
std::unique_ptr<AttendStream> OpenAttendStream(v1::AttentionService::Stub& stub, int64_t max_message_bytes,
                                               const CallOptions& options);

}  // namespace attention
