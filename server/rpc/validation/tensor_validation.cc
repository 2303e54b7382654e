#include "server/rpc/validation/tensor_validation.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"

namespace attention::server {
namespace {

bool Matches(DType dtype, WantedDType wanted) {
  switch (wanted) {
    case WantedDType::kFloat:
      return IsFloat(dtype);
    case WantedDType::kBool:
      return dtype == DType::kBool;
    case WantedDType::kId:
      return dtype == DType::kInt32 || dtype == DType::kInt64;
    case WantedDType::kCompute:
      return dtype == DType::kFloat32 || dtype == DType::kBFloat16;
  }
  return false;
}

absl::string_view Text(WantedDType wanted) {
  switch (wanted) {
    case WantedDType::kFloat:
      return "float32, bfloat16, float16 or float64";
    case WantedDType::kBool:
      return "bool (true = attend; numbers that are added to the scores belong in bias)";
    case WantedDType::kId:
      return "int32 or int64";
    case WantedDType::kCompute:
      return "float32 or bfloat16";
  }
  return "";
}

absl::Status CheckSizes(absl::string_view field, absl::Span<const int64_t> shape) {
  // Tested first, so that no message spells out a shape of a million axes.
  if (shape.size() > kMaxAxes) {
    return absl::InvalidArgumentError(absl::StrCat(field, ": ", shape.size(), " axes, wanted at most ", kMaxAxes));
  }
  if (absl::c_any_of(shape, [](int64_t size) { return size < 0; })) {
    return absl::InvalidArgumentError(absl::StrCat(field, ": shape ", ShapeString(shape), " has a negative size"));
  }
  return absl::OkStatus();
}

absl::Status CheckBytes(absl::string_view field, const TensorView& view, int64_t got) {
  const std::optional<int64_t> wanted = ByteCount(view.shape, view.dtype);
  if (!wanted) {
    return absl::InvalidArgumentError(absl::StrCat(field, ": shape ", ShapeString(view.shape), " of ",
                                                   DTypeName(view.dtype), " wants more than 2^63 bytes, got ", got));
  }
  if (*wanted != got) {
    return absl::InvalidArgumentError(absl::StrCat(field, ": shape ", ShapeString(view.shape), " of ",
                                                   DTypeName(view.dtype), " wants ", *wanted, " bytes, got ", got));
  }
  return absl::OkStatus();
}

}  // namespace

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

absl::StatusOr<TensorView> CheckTensor(absl::string_view field, const v1::Tensor& tensor, WantedDType wanted) {
  if (auto status = CheckDType(field, tensor.dtype(), wanted); !status.ok()) return status;
  if (auto status = CheckSizes(field, ShapeOf(tensor)); !status.ok()) return status;
  const TensorView view = ViewOf(tensor);
  if (auto status = CheckBytes(field, view, tensor.data().size()); !status.ok()) return status;
  return view;
}

absl::Status CheckDType(absl::string_view field, v1::DataType dtype, WantedDType wanted) {
  const std::optional<DType> known = DTypeFromProto(dtype);
  if (known && Matches(*known, wanted)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, ": dtype ", DataTypeText(dtype), ", wanted ", Text(wanted)));
}

}  // namespace attention::server
