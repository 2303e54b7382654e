#pragma once

#include "absl/status/status.h"
#include "attention/v1/attention.pb.h"
#include "server/engine/non_finite.h"

namespace attention::server {

// Checks the numbers of a computed reply. OUT_OF_RANGE, with the first tensor of the formula that exceeded its type, if
// the request and the parameters of its layer (`layer_is_finite`) are finite but the reply is not: NaN and infinities
// of a reply always come from the request or the layer.
absl::Status CheckReplyRange(const NonFiniteTensors& non_finite, const v1::AttendRequest& request, bool layer_is_finite,
                             const v1::AttendResponse& response);

}  // namespace attention::server
