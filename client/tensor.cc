#include "client/tensor.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/internal/field_error.h"

namespace attention {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are sent as they are in memory");

float FromBFloat16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

float FromFloat16(uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1f;
  const int fraction = bits & 0x3ff;
  const float sign = (bits & 0x8000) != 0 ? -1.0f : 1.0f;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
  if (exponent == 31) return fraction == 0 ? sign * INFINITY : NAN;
  return sign * std::ldexp(static_cast<float>(fraction + 0x400), exponent - 25);
}

template <typename Element, typename Result = float, typename Convert>
std::vector<Result> Converted(const std::string& bytes, Convert convert) {
  std::vector<Result> values(bytes.size() / sizeof(Element));
  for (size_t i = 0; i < values.size(); ++i) {
    Element element;
    std::memcpy(&element, bytes.data() + i * sizeof(Element), sizeof(Element));
    values[i] = convert(element);
  }
  return values;
}

}  // namespace

absl::string_view Name(DataType dtype) {
  switch (dtype) {
    case DataType::kFloat32:
      return "float32";
    case DataType::kBFloat16:
      return "bfloat16";
    case DataType::kFloat16:
      return "float16";
    case DataType::kFloat64:
      return "float64";
    case DataType::kBool:
      return "bool";
    case DataType::kInt32:
      return "int32";
    case DataType::kInt64:
      return "int64";
  }
  return "unknown";
}

int64_t ElementBytes(DataType dtype) {
  switch (dtype) {
    case DataType::kFloat32:
    case DataType::kInt32:
      return 4;
    case DataType::kBFloat16:
    case DataType::kFloat16:
      return 2;
    case DataType::kFloat64:
    case DataType::kInt64:
      return 8;
    case DataType::kBool:
      return 1;
  }
  return 0;
}

absl::StatusOr<int64_t> ByteSize(DataType dtype, absl::Span<const int64_t> shape) {
  int64_t size = ElementBytes(dtype);
  if (size == 0) return FieldError("dtype", "a known data type", static_cast<int>(dtype));
  bool overflow = false;
  bool empty = false;
  for (const int64_t axis : shape) {
    if (axis < 0) return FieldError("shape", "no negative size", ShapeText(shape));
    // An axis of size 0 makes the product 0 even if the axes before it overflow.
    empty = empty || axis == 0;
    overflow = overflow || __builtin_mul_overflow(size, axis, &size);
  }
  if (empty) return 0;
  if (overflow) {
    return FieldError("shape", "at most 2^63 - 1 bytes", absl::StrCat(ShapeText(shape), " of ", Name(dtype)));
  }
  return size;
}

std::vector<float> Tensor::Floats() const {
  switch (dtype) {
    case DataType::kFloat32:
      return Converted<float>(bytes, [](float value) { return value; });
    case DataType::kBFloat16:
      return Converted<uint16_t>(bytes, FromBFloat16);
    case DataType::kFloat16:
      return Converted<uint16_t>(bytes, FromFloat16);
    case DataType::kFloat64:
      return Converted<double>(bytes, [](double value) { return static_cast<float>(value); });
    case DataType::kBool:
      return Converted<uint8_t>(bytes, [](uint8_t value) { return value != 0 ? 1.0f : 0.0f; });
    case DataType::kInt32:
      return Converted<int32_t>(bytes, [](int32_t value) { return static_cast<float>(value); });
    case DataType::kInt64:
      return Converted<int64_t>(bytes, [](int64_t value) { return static_cast<float>(value); });
  }
  return {};
}

std::vector<int64_t> Tensor::Integers() const {
  if (dtype == DataType::kInt32) return Converted<int32_t, int64_t>(bytes, [](int64_t value) { return value; });
  if (dtype == DataType::kInt64) return Converted<int64_t, int64_t>(bytes, [](int64_t value) { return value; });
  return {};
}

}  // namespace attention
