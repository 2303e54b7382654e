#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "attention/v1/attention.pb.h"
#include "server/engine/attention_mask.h"
#include "server/rpc/broadcast.h"

namespace attention::server {

// Checks every part of attention.v1.Mask and makes what the engine reads of it. The bytes of mask.dense stay in the
// message. `k_is_q`: inputs_k was left out.
//
// INVALID_ARGUMENT with the part, what was wanted and what came: for mask.dense a type other than bool, bytes that do
// not fit the shape, a byte that is neither 0 nor 1 (with its index), a shape that does not broadcast (with both
// shapes); for the others see limits_validation.h and segment_validation.h.
absl::StatusOr<AttentionMask> CheckMask(const v1::Mask& mask, const ScoresShape& scores, bool k_is_q);

// Memory that the mask takes beside the request.
int64_t OwnedBytes(const AttentionMask& mask);

}  // namespace attention::server
