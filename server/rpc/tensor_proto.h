#pragma once

#include <optional>
#include <string>

#include "attention/v1/tensor.pb.h"
#include "server/engine/tensor.h"

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

}  // namespace attention::server
