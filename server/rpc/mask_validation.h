#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "attention/v1/tensor.pb.h"
#include "server/engine/attention_call.h"

namespace attention::server {

// The shape that masks are broadcast to: [batch…, num_heads, q_length, kv_length].
struct ScoresShape {
  absl::Span<const int64_t> batch;
  int64_t num_heads = 0;
  int64_t q_length = 0;
  int64_t kv_length = 0;
};

// Checks mask.dense and lays it over the scores; the bytes stay in the message. INVALID_ARGUMENT, with "mask.dense",
// for a type other than bool, bytes that do not fit the shape, a byte that is neither 0 nor 1 (with its index), and a
// shape that does not broadcast (with both shapes).
//
// DenseMask::batch_offsets has one entry for each row of the folded batch, or none where the scores have no element:
// then there may be more rows than memory.
absl::StatusOr<DenseMask> CheckMask(const v1::Tensor& mask, const ScoresShape& scores);

}  // namespace attention::server
