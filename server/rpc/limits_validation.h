#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "attention/v1/attention.pb.h"
#include "server/engine/attention_mask.h"
#include "server/rpc/broadcast.h"

namespace attention::server {

// What mask.kv_lengths, mask.q_lengths, mask.causal and mask.window leave of each sequence: nothing if they hide
// nothing or there is no query, one entry if all sequences are alike, else one for each row of the folded batch.
//
// INVALID_ARGUMENT, with the part, for a list of lengths that is not as long as the batch, a length that is negative or
// too large, a diagonal without a position, a window that is less than −1 wide. Only lists that came are walked
// through, so a batch may have any size.
absl::StatusOr<std::vector<SequenceLimits>> CheckLimits(const v1::Mask& mask, const ScoresShape& scores);

}  // namespace attention::server
