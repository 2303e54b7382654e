#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace attention::server {

// The number as bfloat16, rounded to nearest even; what is too large becomes infinite. A NaN whose payload stands in
// the lower half only would round to infinity; the quiet bit keeps it a NaN.
inline uint16_t RoundedToBFloat16(float number) {
  const auto bits = std::bit_cast<uint32_t>(number);
  const uint32_t to_even = bits + 0x7FFF + ((bits >> 16) & 1);
  const bool is_nan = (bits & 0x7FFFFFFF) > 0x7F800000;
  return static_cast<uint16_t>((is_nan ? bits | 0x00400000 : to_even) >> 16);
}

// Element type of a tensor, in memory, in files and on the wire. The numbers are those of attention.v1.DataType.
enum class DType : uint8_t {
  kFloat32 = 1,
  kBFloat16 = 2,
  kFloat16 = 3,
  kFloat64 = 4,
  kBool = 5,
  kInt8 = 6,
  kUInt8 = 7,
  kInt16 = 8,
  kUInt16 = 9,
  kInt32 = 10,
  kUInt32 = 11,
  kInt64 = 12,
  kUInt64 = 13,
};

// Bytes of one element.
int64_t DTypeSize(DType dtype);

// "float32", "bool", …, as numpy names them.
absl::string_view DTypeName(DType dtype);

// True for the four floating-point types, which ToFloat32 converts.
bool IsFloat(DType dtype);

using Shape = std::vector<int64_t>;

// Most axes of any tensor, in a file or in a request.
inline constexpr int kMaxAxes = 8;

// "[1, 2, 3]"
std::string ShapeString(absl::Span<const int64_t> shape);

// Product of the sizes; nothing if a size is negative or the product passes int64.
std::optional<int64_t> ElementCount(absl::Span<const int64_t> shape);

// Elements times their size; nothing where ElementCount gives nothing or the product passes int64.
std::optional<int64_t> ByteCount(absl::Span<const int64_t> shape, DType dtype);

// A dense row-major tensor whose bytes belong to somebody else. `data` may stand at any address, aligned or not.
struct TensorView {
  DType dtype = DType::kFloat32;
  absl::Span<const int64_t> shape;
  const std::byte* data = nullptr;
};

// Converts `count` elements of a float type, from any address, to float32. BFloat16 and float16 are exact, denormals
// included; float64 is rounded to nearest even.
// REQUIRES: IsFloat(dtype).
void ToFloat32(DType dtype, const std::byte* src, int64_t count, float* dst);

// The way back, to any address, rounded to nearest even; what is too large becomes infinite, NaN stays NaN.
// REQUIRES: IsFloat(dtype).
void FromFloat32(const float* src, int64_t count, DType dtype, std::byte* dst);

}  // namespace attention::server
