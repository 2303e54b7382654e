#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/checkpoint/tensor.h"
#include "server/engine/attention_mask.h"

namespace attention::server {

// [batch…, num_heads, q_length, kv_length]
struct ScoresShape {
  absl::Span<const int64_t> batch;
  int64_t num_heads = 0;
  int64_t q_length = 0;
  int64_t kv_length = 0;
};

// Lays a tensor over the scores, aligned at the right: an axis of size 1, or one that is missing on the left, holds for
// all. The bytes stay where they are. INVALID_ARGUMENT, with `field` and both shapes, for a shape that does not fit.
//
// ScoresTensor::batch_offsets has one entry for each row of the folded batch. Where the scores have no element the
// result is an empty ScoresTensor: then there may be more rows than memory.
absl::StatusOr<ScoresTensor> BroadcastToScores(absl::string_view field, const TensorView& tensor,
                                               const ScoresShape& scores);

}  // namespace attention::server
