#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/checkpoint/formats/tensor_map.h"

namespace attention::server {

// Errors are INVALID_ARGUMENT with the tensor, what was wanted and what was found.

// "layer0/query/kernel [3, 1, 4]", as a message may repeat it.
std::string Described(const NamedTensor& tensor);

absl::Status WrongShape(const NamedTensor& tensor, absl::string_view wanted);

// Checks what holds for every parameter by itself: a float type, at least one axis, sizes of at least 1, and as many
// bytes as these make.
absl::Status CheckTensor(const NamedTensor& tensor);

// The same of a bool tensor.
absl::Status CheckBools(const NamedTensor& tensor);

// CheckTensor, and the number of axes. `axes` names them in the message: "num_heads, head_dim".
absl::Status CheckAxes(const NamedTensor& tensor, size_t count, absl::string_view axes);

// Wants exactly this shape, because of another tensor.
absl::Status CheckShape(const NamedTensor& tensor, const Shape& wanted, absl::string_view because);

}  // namespace attention::server
