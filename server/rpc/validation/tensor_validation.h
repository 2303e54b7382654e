#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "attention/v1/tensor.pb.h"
#include "server/checkpoint/tensor.h"
#include "server/engine/attention_mask.h"
#include "server/rpc/proto_conversion.h"

// The rules that a single tensor of a request must keep. The errors are INVALID_ARGUMENT and start with `field`.
namespace attention::server {

// The element types that a field accepts.
enum class AcceptedDTypes {
  kFloat,    // the four floating-point types
  kBool,     // bool
  kId,       // int32 and int64
  kCompute,  // the types that products are computed in: float32 and bfloat16
};

// Checks the element type of a tensor or an option: "options.output_dtype: expected dtype float32, bfloat16, float16 or
// float64, got int32".
absl::Status CheckDType(absl::string_view field, v1::DataType dtype, AcceptedDTypes accepted);

// Checks that the element type is accepted, that there are at most kMaxAxes axes, that no size is negative, and that
// the tensor has exactly the bytes that its shape requires. Products of sizes are checked for overflow. Returns a view;
// the message keeps the memory.
//
// Error: "inputs_q: expected 24 bytes for shape [1, 2, 3] of float32, got 20".
absl::StatusOr<TensorView> CheckTensor(absl::string_view field, const v1::Tensor& tensor, AcceptedDTypes accepted);

// What float64 numbers below the range of float32 mean.
enum class BelowFloat32 {
  kInvalid,
  kMinusInfinity,
};

// Checks that the finite numbers of a float tensor remain finite when they are converted to float32, which only float64
// numbers may not. NaN and infinities are valid.
//
// Error: "inputs_q: expected numbers within the range of float32, got 1e+300 at [0, 1]".
absl::Status CheckFloat32Range(absl::string_view field, const TensorView& tensor, BelowFloat32 below);

// [batch…, num_heads, q_length, kv_length]
struct ScoresShape {
  absl::Span<const int64_t> batch;
  int64_t num_heads = 0;
  int64_t q_length = 0;
  int64_t kv_length = 0;
};

// Broadcasts a tensor to the scores, aligned at the last axis: an axis of size 1 and a missing leading axis are
// repeated. Computes strides and offsets only; the bytes stay in place. Error, with both shapes: the tensor does not
// broadcast.
//
// ScoresTensor::batch_offsets has one entry for each row of the folded batch. If the scores have no elements the result
// is an empty ScoresTensor, because the batch alone may then be too large to allocate anything for each row.
absl::StatusOr<ScoresTensor> BroadcastToScores(absl::string_view field, const TensorView& tensor,
                                               const ScoresShape& scores);

}  // namespace attention::server
