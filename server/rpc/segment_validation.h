#pragma once

#include "absl/status/statusor.h"
#include "attention/v1/attention.pb.h"
#include "server/engine/attention_mask.h"
#include "server/rpc/broadcast.h"

namespace attention::server {

// mask.q_segment_ids and mask.kv_segment_ids as int64, or an empty SegmentIds if neither is set. `k_is_q`: inputs_k was
// left out, so the keys have the ids of the queries unless they have their own.
//
// INVALID_ARGUMENT, with the field, if one of them is missing, is not of an integer type, or has a shape other than
// [batch…, length] and [length].
absl::StatusOr<SegmentIds> CheckSegments(const v1::Mask& mask, const ScoresShape& scores, bool k_is_q);

}  // namespace attention::server
