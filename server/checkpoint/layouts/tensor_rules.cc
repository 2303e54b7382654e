#include "server/checkpoint/layouts/tensor_rules.h"

#include <optional>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "server/checkpoint/field_error.h"

namespace attention::server {
namespace {

absl::Status Wrong(const NamedTensor& tensor, absl::string_view found, absl::string_view wanted) {
  return absl::InvalidArgumentError(absl::StrCat(EscapeForMessage(tensor.name), ": ", found, ", wanted ", wanted));
}

absl::Status WrongType(const NamedTensor& tensor, absl::string_view wanted) {
  return Wrong(tensor, absl::StrCat("dtype ", DTypeName(tensor.dtype)), wanted);
}

absl::Status CheckSizes(const NamedTensor& tensor) {
  if (tensor.shape.empty()) return WrongShape(tensor, "at least 1 axis");
  if (absl::c_any_of(tensor.shape, [](int64_t size) { return size < 1; })) {
    return WrongShape(tensor, "sizes of at least 1");
  }
  const std::optional<int64_t> bytes = ByteCount(tensor.shape, tensor.dtype);
  if (bytes && static_cast<uint64_t>(*bytes) == tensor.data.size()) return absl::OkStatus();
  return WrongShape(tensor, absl::StrCat("one of ", tensor.data.size(), " bytes"));
}

}  // namespace

std::string Described(const NamedTensor& tensor) {
  return absl::StrCat(EscapeForMessage(tensor.name), " ", ShapeString(tensor.shape));
}

absl::Status WrongShape(const NamedTensor& tensor, absl::string_view wanted) {
  return Wrong(tensor, absl::StrCat("shape ", ShapeString(tensor.shape)), wanted);
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
  return WrongShape(tensor, absl::StrCat(count, count == 1 ? " axis: " : " axes: ", axes));
}

absl::Status CheckShape(const NamedTensor& tensor, const Shape& wanted, absl::string_view because) {
  if (tensor.shape == wanted) return absl::OkStatus();
  return WrongShape(tensor, absl::StrCat(ShapeString(wanted), " to go with ", because));
}

}  // namespace attention::server
