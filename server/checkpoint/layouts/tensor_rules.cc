#include "server/checkpoint/layouts/tensor_rules.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "server/checkpoint/field_error.h"

namespace attention::server {
namespace {

absl::Status WrongType(const NamedTensor& tensor, absl::string_view expected) {
  return FieldError(EscapeForMessage(tensor.name), absl::StrCat("dtype ", expected), DTypeName(tensor.dtype));
}

}  // namespace

std::string Described(const NamedTensor& tensor) {
  return absl::StrCat(EscapeForMessage(tensor.name), " ", ShapeString(tensor.shape));
}

absl::Status WrongShape(const NamedTensor& tensor, absl::string_view expected) {
  return FieldError(EscapeForMessage(tensor.name), expected, absl::StrCat("shape ", ShapeString(tensor.shape)));
}

bool IsEmpty(const NamedTensor& tensor) { return absl::c_linear_search(tensor.shape, 0); }

absl::Status CheckFloat(const NamedTensor& tensor) {
  return IsFloat(tensor.dtype) ? absl::OkStatus() : WrongType(tensor, "float32, bfloat16, float16 or float64");
}

absl::Status CheckBools(const NamedTensor& tensor) {
  if (tensor.dtype != DType::kBool) return WrongType(tensor, "bool");
  if (!tensor.shape.empty() && !IsEmpty(tensor)) return absl::OkStatus();
  return WrongShape(tensor, "at least 1 axis with sizes of at least 1");
}

absl::Status CheckAxes(const NamedTensor& tensor, size_t count, absl::string_view axes) {
  if (absl::Status status = CheckFloat(tensor); !status.ok()) return status;
  if (tensor.shape.size() == count && !IsEmpty(tensor)) return absl::OkStatus();
  return WrongShape(tensor, absl::StrCat("shape [", axes, "]", IsEmpty(tensor) ? " with sizes of at least 1" : ""));
}

absl::Status CheckShape(const NamedTensor& tensor, const Shape& expected, absl::string_view because) {
  if (tensor.shape == expected) return absl::OkStatus();
  return WrongShape(tensor, absl::StrCat("shape ", ShapeString(expected), " to match ", because));
}

}  // namespace attention::server
