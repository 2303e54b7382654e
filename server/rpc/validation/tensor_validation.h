#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "attention/v1/tensor.pb.h"
#include "server/checkpoint/tensor.h"

namespace attention::server {

// The element type behind a number of the wire; nothing for UNSPECIFIED and for numbers that stand in no enum.
std::optional<DType> DTypeFromProto(v1::DataType dtype);

v1::DataType DTypeToProto(DType dtype);

// "float32", "unspecified", or the number itself where it stands in no enum.
std::string DataTypeText(v1::DataType dtype);

// The tensor as it stands in the message, which keeps the memory. REQUIRES: DTypeFromProto knows its dtype.
TensorView ViewOf(const v1::Tensor& tensor);

// The sizes of the tensor, which keeps the memory.
absl::Span<const int64_t> ShapeOf(const v1::Tensor& tensor);

// The element types that a field takes.
enum class WantedDType {
  kFloat,    // the four floating-point types
  kBool,     // truth values of a mask
  kId,       // int32 and int64
  kCompute,  // what products can be made of: float32 and bfloat16
};

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
