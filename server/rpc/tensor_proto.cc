#include "server/rpc/tensor_proto.h"

#include "absl/strings/str_cat.h"

namespace attention::server {

std::optional<DType> DTypeFromProto(v1::DataType dtype) {
  if (dtype == v1::DATA_TYPE_UNSPECIFIED || !v1::DataType_IsValid(dtype)) return std::nullopt;
  return static_cast<DType>(dtype);
}

v1::DataType DTypeToProto(DType dtype) { return static_cast<v1::DataType>(dtype); }

std::string DataTypeText(v1::DataType dtype) {
  if (dtype == v1::DATA_TYPE_UNSPECIFIED) return "unspecified";
  const std::optional<DType> known = DTypeFromProto(dtype);
  return known ? std::string(DTypeName(*known)) : absl::StrCat(static_cast<int>(dtype));
}

TensorView ViewOf(const v1::Tensor& tensor) {
  return {*DTypeFromProto(tensor.dtype()), ShapeOf(tensor), reinterpret_cast<const std::byte*>(tensor.data().data())};
}

absl::Span<const int64_t> ShapeOf(const v1::Tensor& tensor) {
  return {tensor.shape().data(), static_cast<size_t>(tensor.shape_size())};
}

}  // namespace attention::server
