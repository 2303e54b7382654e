#pragma once

#include "absl/status/status.h"
#include "attention/v1/attention.pb.h"
#include "server/rpc/input_validation.h"

namespace attention::server {

// Finds the heads in the inputs of a request without a weight set, as AttendRequest.heads says: fills in the batch axes
// and the length of each input, the heads, and the axes of the output. REQUIRES: fields and views are there.
//
// INVALID_ARGUMENT, with the field, for a layout that is missing or wrong by itself, an input that does not have its
// axes or heads, and key heads that do not fit those of the query.
absl::Status PlaceHeads(const v1::AttendRequest& request, Inputs& inputs);

}  // namespace attention::server
