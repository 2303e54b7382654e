#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "attention/v1/attention.pb.h"
#include "server/checkpoint/tensor.h"
#include "server/engine/attention_call.h"

namespace attention::server {

// Checks attention.v1.AttendOptions, as far as they say what is computed, and fills in the defaults. INVALID_ARGUMENT
// with the option, what was wanted and what came.
absl::StatusOr<AttentionOptions> CheckOptions(const v1::AttendOptions& options, int64_t head_dim, int64_t kv_length);

// The type of the output: that of inputs_q unless the options name another. INVALID_ARGUMENT for one that is no float.
absl::StatusOr<DType> CheckOutputDType(const v1::AttendOptions& options, DType inputs_q);

}  // namespace attention::server
