#include "client/cli/numbers.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/cli/text_format.h"
#include "server/checkpoint/tensor.h"

namespace attention::cli {
namespace {

template <typename Element>
std::vector<double> From(const char* bytes, int64_t count) {
  std::vector<Element> elements(count);
  if (count > 0) std::memcpy(elements.data(), bytes, count * sizeof(Element));
  return {elements.begin(), elements.end()};
}

std::vector<double> FromFloat(DataType dtype, const char* bytes, int64_t count) {
  std::vector<float> floats(count);
  // Both enumerations have the numbers of attention.v1.DataType.
  server::ToFloat32(static_cast<server::DType>(dtype), reinterpret_cast<const std::byte*>(bytes), count, floats.data());
  return {floats.begin(), floats.end()};
}

std::vector<double> FromBool(absl::Span<const char> bytes) {
  std::vector<double> values;
  values.reserve(bytes.size());
  for (char byte : bytes) values.push_back(byte != 0 ? 1 : 0);
  return values;
}

bool BroadcastsTo(const Numbers& tensor, absl::Span<const int64_t> shape) {
  const int64_t missing = static_cast<int64_t>(shape.size()) - tensor.rank();
  if (missing < 0) return false;
  for (int64_t axis = 0; axis < tensor.rank(); ++axis) {
    if (tensor.shape[axis] != 1 && tensor.shape[axis] != shape[missing + axis]) return false;
  }
  return true;
}

// For each axis of `shape`, the distance of neighbouring elements in the tensor; 0 for a repeated axis.
std::vector<int64_t> Strides(const Numbers& tensor, absl::Span<const int64_t> shape) {
  std::vector<int64_t> strides(shape.size(), 0);
  int64_t stride = 1;
  for (int64_t axis = tensor.rank() - 1, target = shape.size() - 1; axis >= 0; --axis, --target) {
    strides[target] = tensor.shape[axis] == 1 ? 0 : stride;
    stride *= tensor.shape[axis];
  }
  return strides;
}

bool HasHeads(const Numbers& tensor, HeadAxes axes, int64_t heads) {
  const int64_t rank = tensor.rank();
  if (heads < 1) return false;
  if (axes == HeadAxes::kLengthFeatures) return rank >= 2 && tensor.shape[rank - 1] % heads == 0;
  return rank >= 3 && tensor.shape[axes == HeadAxes::kLengthHeads ? rank - 2 : rank - 3] == heads;
}

// [batch…, heads, length, width] to [batch…, length, heads, width].
Numbers SwapHeadsAndLength(const Numbers& tensor) {
  Numbers result = tensor;
  const int64_t rank = tensor.rank();
  const int64_t heads = tensor.shape[rank - 3], length = tensor.shape[rank - 2], width = tensor.shape[rank - 1];
  std::swap(result.shape[rank - 3], result.shape[rank - 2]);
  const int64_t matrix = heads * length * width;
  for (int64_t from = 0; from < static_cast<int64_t>(tensor.values.size()); from += width) {
    const int64_t row = from % matrix / width;
    const int64_t to = from - from % matrix + (row % length * heads + row / length) * width;
    std::copy_n(tensor.values.begin() + from, width, result.values.begin() + to);
  }
  return result;
}

}  // namespace

absl::StatusOr<Numbers> ToNumbers(const TensorRef& tensor) {
  const absl::StatusOr<int64_t> bytes = ByteSize(tensor.dtype, tensor.shape);
  if (!bytes.ok()) return bytes.status();
  if (*bytes != static_cast<int64_t>(tensor.bytes.size())) {
    return absl::InvalidArgumentError(absl::StrCat("expected ", *bytes, " bytes for ", Name(tensor.dtype), " ",
                                                   FormatShape(tensor.shape), ", got ", tensor.bytes.size()));
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
      numbers.values = FromFloat(tensor.dtype, tensor.bytes.data(), count);
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
  if (!BroadcastsTo(tensor, shape)) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a shape that broadcasts to ", FormatShape(shape), ", got ", FormatShape(tensor.shape)));
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

absl::StatusOr<Numbers> ToLengthHeads(const Numbers& tensor, HeadAxes axes, int64_t heads) {
  if (!HasHeads(tensor, axes, heads)) {
    return absl::InvalidArgumentError(absl::StrCat("expected ", AxesText(axes), " with ", CountOf(heads, "head"),
                                                   ", got shape ", FormatShape(tensor.shape)));
  }
  if (axes == HeadAxes::kHeadsLength) return SwapHeadsAndLength(tensor);
  Numbers result = tensor;
  if (axes == HeadAxes::kLengthFeatures) {
    result.shape.insert(result.shape.end() - 1, heads);
    result.shape.back() /= heads;
  }
  return result;
}

}  // namespace attention::cli
