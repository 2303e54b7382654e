#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "attention/v1/attention.pb.h"
#include "server/engine/attention_mask.h"
#include "server/rpc/validation/broadcast.h"

namespace attention::server {

// mask.q_segment_ids and mask.kv_segment_ids as int64, or an empty SegmentIds if neither is set. `k_is_q`: inputs_k was
// left out, so the keys have the ids of the queries unless they have their own.
//
// INVALID_ARGUMENT, with the field, if one of them is missing, is not of an integer type, or has a shape other than
// [batch…, length] and [length].
absl::StatusOr<SegmentIds> CheckSegments(const v1::Mask& mask, const ScoresShape& scores, bool k_is_q);

// What mask.kv_lengths, mask.q_lengths, mask.causal and mask.window leave of each sequence: nothing if they hide
// nothing or there is no query, one entry if all sequences are alike, else one for each row of the folded batch.
//
// INVALID_ARGUMENT, with the part, for a list of lengths that is not as long as the batch, a length that is negative or
// too large, a diagonal without a position, a window that is less than −1 wide. Only lists that came are walked
// through, so a batch may have any size.
absl::StatusOr<std::vector<SequenceLimits>> CheckLimits(const v1::Mask& mask, const ScoresShape& scores);

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
