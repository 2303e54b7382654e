#include "server/checkpoint/layouts/tensor_rules.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "server/checkpoint/field_error.h"

namespace attention::server {
namespace {

absl::Status WrongType(const NamedTensor& tensor, absl::string_view expected) {
  return FieldError(EscapeForMessage(tensor.name), absl::StrCat("dtype ", expected), DTypeName(tensor.dtype));
}

absl::Status CheckSizes(const NamedTensor& tensor) {
  if (tensor.shape.empty()) return WrongShape(tensor, "at least 1 axis");
  if (absl::c_any_of(tensor.shape, [](int64_t size) { return size < 1; })) {
    return WrongShape(tensor, "sizes of at least 1");
  }
  return CheckByteCount(EscapeForMessage(tensor.name), tensor.dtype, tensor.shape, tensor.data.size());
}

}  // namespace

std::string Described(const NamedTensor& tensor) {
  return absl::StrCat(EscapeForMessage(tensor.name), " ", ShapeString(tensor.shape));
}

absl::Status WrongShape(const NamedTensor& tensor, absl::string_view expected) {
  return FieldError(EscapeForMessage(tensor.name), expected, absl::StrCat("shape ", ShapeString(tensor.shape)));
}

absl::Status CheckTensor(const NamedTensor& tensor) {
  return IsFloat(tensor.dtype) ? CheckSizes(tensor) : WrongType(tensor, "float32, bfloat16, float16 or float64");
}

absl::Status CheckBools(const NamedTensor& tensor) {
  return tensor.dtype == DType::kBool ? CheckSizes(tensor) : WrongType(tensor, "bool");
}

absl::Status CheckAxes(const NamedTensor& tensor, size_t count, absl::string_view axes) {
  if (absl::Status status = CheckTensor(tensor); !status.ok()) return status;
  if (tensor.shape.size() == count) return absl::OkStatus();
  return WrongShape(tensor, absl::StrCat("shape [", axes, "]"));
}

absl::Status CheckShape(const NamedTensor& tensor, const Shape& expected, absl::string_view because) {
  if (tensor.shape == expected) return absl::OkStatus();
  return WrongShape(tensor, absl::StrCat("shape ", ShapeString(expected), " to match ", because));
}

}  // namespace attention::server
