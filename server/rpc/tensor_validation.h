#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "attention/v1/tensor.pb.h"
#include "server/engine/tensor.h"

namespace attention::server {

// The element types that a field takes.
enum class WantedDType {
  kFloat,    // the four floating-point types
  kBool,     // truth values of a mask
  kId,       // int32 and int64
  kCompute,  // what products can be made of: float32 and bfloat16
};

// Most axes of any tensor.
inline constexpr int kMaxAxes = 8;

// Checks one tensor by itself: its type is wanted here, it has at most kMaxAxes axes of sizes that are not negative,
// and exactly the bytes that its shape asks for. Sizes are multiplied with an overflow test, so nothing that a caller
// writes into a shape is believed. Returns the view of it; nothing is copied.
//
// INVALID_ARGUMENT otherwise: "inputs_q: shape [1, 2, 3] of float32 wants 24 bytes, got 20".
absl::StatusOr<TensorView> CheckTensor(absl::string_view field, const v1::Tensor& tensor, WantedDType wanted);

// The same for a type that stands alone: "options.output_dtype: dtype int32, wanted float32, bfloat16, float16 or
// float64".
absl::Status CheckDType(absl::string_view field, v1::DataType dtype, WantedDType wanted);

}  // namespace attention::server
