#include "client/cli/numbers.h"

#include <cstddef>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/cli/number_format.h"
#include "server/checkpoint/tensor.h"

namespace attention::cli {
namespace {

template <typename Element>
std::vector<double> From(const char* bytes, int64_t count) {
  std::vector<Element> elements(count);
  if (count > 0) std::memcpy(elements.data(), bytes, count * sizeof(Element));
  return {elements.begin(), elements.end()};
}

std::vector<double> FromShorterFloat(DataType dtype, const char* bytes, int64_t count) {
  std::vector<float> floats(count);
  // The numbers of both enumerations are those of attention.v1.DataType.
  server::ToFloat32(static_cast<server::DType>(dtype), reinterpret_cast<const std::byte*>(bytes), count, floats.data());
  return {floats.begin(), floats.end()};
}

std::vector<double> FromBool(absl::Span<const char> bytes) {
  std::vector<double> values;
  values.reserve(bytes.size());
  for (char byte : bytes) values.push_back(byte != 0 ? 1 : 0);
  return values;
}

bool Fits(const Numbers& tensor, absl::Span<const int64_t> shape) {
  const int64_t missing = static_cast<int64_t>(shape.size()) - tensor.rank();
  if (missing < 0) return false;
  for (int64_t axis = 0; axis < tensor.rank(); ++axis) {
    if (tensor.shape[axis] != 1 && tensor.shape[axis] != shape[missing + axis]) return false;
  }
  return true;
}

// For each axis of `shape`, how far the tensor moves when its index grows by one.
std::vector<int64_t> Strides(const Numbers& tensor, absl::Span<const int64_t> shape) {
  std::vector<int64_t> strides(shape.size(), 0);
  int64_t stride = 1;
  for (int64_t axis = tensor.rank() - 1, target = shape.size() - 1; axis >= 0; --axis, --target) {
    strides[target] = tensor.shape[axis] == 1 ? 0 : stride;
    stride *= tensor.shape[axis];
  }
  return strides;
}

}  // namespace

absl::StatusOr<Numbers> ToNumbers(const TensorRef& tensor) {
  const absl::StatusOr<int64_t> bytes = ByteSize(tensor.dtype, tensor.shape);
  if (!bytes.ok()) return bytes.status();
  if (*bytes != static_cast<int64_t>(tensor.bytes.size())) {
    return absl::InvalidArgumentError(absl::StrCat("wanted ", *bytes, " bytes for ", Name(tensor.dtype), " ",
                                                   FormatShape(tensor.shape), ", found ", tensor.bytes.size()));
  }
  Numbers numbers{tensor.dtype, {tensor.shape.begin(), tensor.shape.end()}, {}};
  const int64_t count = *bytes / ElementBytes(tensor.dtype);
  switch (tensor.dtype) {
    case DataType::kBool:
      numbers.values = FromBool(tensor.bytes);
      break;
    case DataType::kFloat64:
      numbers.values = From<double>(tensor.bytes.data(), count);
      break;
    case DataType::kInt32:
      numbers.values = From<int32_t>(tensor.bytes.data(), count);
      break;
    case DataType::kInt64:
      numbers.values = From<int64_t>(tensor.bytes.data(), count);
      break;
    default:
      numbers.values = FromShorterFloat(tensor.dtype, tensor.bytes.data(), count);
  }
  return numbers;
}

double RoundToBFloat16(double value) {
  const float number = static_cast<float>(value);
  std::byte bfloat16[2];
  server::FromFloat32(&number, 1, server::DType::kBFloat16, bfloat16);
  float rounded = 0;
  server::ToFloat32(server::DType::kBFloat16, bfloat16, 1, &rounded);
  return rounded;
}

absl::StatusOr<std::vector<double>> Broadcast(const Numbers& tensor, absl::Span<const int64_t> shape) {
  if (!Fits(tensor, shape)) {
    return absl::InvalidArgumentError(
        absl::StrCat("shape ", FormatShape(tensor.shape), " does not broadcast to ", FormatShape(shape)));
  }
  const std::vector<int64_t> strides = Strides(tensor, shape);
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  std::vector<double> values(count);
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, from = 0;
    for (int64_t axis = shape.size() - 1; axis >= 0; --axis) {
      from += rest % shape[axis] * strides[axis];
      rest /= shape[axis];
    }
    values[i] = tensor.values[from];
  }
  return values;
}

}  // namespace attention::cli
