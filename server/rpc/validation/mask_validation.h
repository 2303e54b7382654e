#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "attention/v1/attention.pb.h"
#include "server/engine/attention_mask.h"
#include "server/rpc/validation/tensor_validation.h"

// The rules of attention.v1.Mask. The errors are INVALID_ARGUMENT and name the part of the mask.
namespace attention::server {

// Validates every part of a mask and converts it to what the engine reads. The bytes of mask.dense stay in the message.
// `k_is_q`: inputs_k is absent, so keys have the segment ids of the queries unless they have their own.
//
// Errors of mask.dense: a type other than bool, bytes that do not match the shape, a byte other than 0 and 1 (with its
// index), a shape that does not broadcast to `scores`.
absl::StatusOr<AttentionMask> CheckMask(const v1::Mask& mask, const ScoresShape& scores, bool k_is_q);

// Converts mask.kv_lengths, mask.q_lengths, mask.causal and mask.window to the visible part of each sequence. The
// result is empty if they hide nothing or there is no query, has one entry if all sequences are alike, and otherwise
// one for each row of the folded batch. Time and memory depend on the lists in the message only, so the batch may have
// any size.
//
// Errors: a list of lengths whose size is not the batch size, a length that is negative or too large, a diagonal
// without a position, a window narrower than −1.
absl::StatusOr<std::vector<SequenceLimits>> CheckLimits(const v1::Mask& mask, const ScoresShape& scores);

// Converts mask.q_segment_ids and mask.kv_segment_ids to int64. The result is empty if neither is set.
//
// Errors: only one of them is set although the other is needed, a type other than int32 and int64, a shape other than
// [batch…, length] and [length].
absl::StatusOr<SegmentIds> CheckSegments(const v1::Mask& mask, const ScoresShape& scores, bool k_is_q);

// Bytes of a mask: of its tensors and lists in the message, and of what CheckMask allocated for it.
int64_t MaskBytes(const v1::Mask& mask, const AttentionMask& checked);

}  // namespace attention::server
