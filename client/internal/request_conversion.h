#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "client/attention_client.h"

namespace attention {

// Bytes of the request as an encoded attention.v1.AttendRequest, computed from the shapes alone: no tensor data are
// read.
//
// INVALID_ARGUMENT if the shape of a tensor disagrees with the number of its bytes; RESOURCE_EXHAUSTED, with the size
// and the limit, for a request above `max_message_bytes`. REQUIRES: 0 < max_message_bytes < 2^31.
absl::StatusOr<int64_t> CheckedRequestSize(const AttendRequest& request, int64_t max_message_bytes);

}  // namespace attention
