#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/checkpoint/formats/tensor_map.h"

namespace attention::server {

// Checks of single tensors of a layer. Errors are INVALID_ARGUMENT with the name of the tensor, the expected and the
// actual shape or type.

// "layer0/query/kernel [3, 1, 4]", for error texts.
std::string Described(const NamedTensor& tensor);

// The error for a shape that is not as `expected`.
absl::Status WrongShape(const NamedTensor& tensor, absl::string_view expected);

// A float type.
absl::Status CheckFloat(const NamedTensor& tensor);

// A bool tensor with at least one axis and sizes of at least 1.
absl::Status CheckBools(const NamedTensor& tensor);

// True if a size is 0.
bool IsEmpty(const NamedTensor& tensor);

// CheckFloat, and `count` axes with sizes of at least 1. `axes` names them for the error: "num_heads, head_dim".
absl::Status CheckAxes(const NamedTensor& tensor, size_t count, absl::string_view axes);

// Exactly the shape `expected`, which follows from other tensors that `because` names.
absl::Status CheckShape(const NamedTensor& tensor, const Shape& expected, absl::string_view because);

}  // namespace attention::server
