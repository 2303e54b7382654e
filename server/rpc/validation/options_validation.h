#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "attention/v1/attention.pb.h"
#include "server/checkpoint/tensor.h"
#include "server/engine/attention_call.h"

namespace attention::server {

// Validates the fields of attention.v1.AttendOptions that the engine reads, and sets the defaults. INVALID_ARGUMENT
// with the option: "options.top_k: expected 0 to kv_length 8, got 9".
absl::StatusOr<AttentionOptions> CheckOptions(const v1::AttendOptions& options, int64_t head_dim, int64_t kv_length);

// Returns the element type of the output: options.output_dtype, or that of inputs_q if it is not set. INVALID_ARGUMENT
// for a type that is not floating-point.
absl::StatusOr<DType> CheckOutputDType(const v1::AttendOptions& options, DType inputs_q);

}  // namespace attention::server
