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

// The number as bfloat16, rounded to nearest even; numbers that are too large become infinite. A NaN with its payload
// only in the lower half would round to infinity; the quiet bit keeps it a NaN.
inline uint16_t RoundedToBFloat16(float number) {
  const auto bits = std::bit_cast<uint32_t>(number);
  const uint32_t to_even = bits + 0x7FFF + ((bits >> 16) & 1);
  const bool is_nan = (bits & 0x7FFFFFFF) > 0x7F800000;
  return static_cast<uint16_t>((is_nan ? bits | 0x00400000 : to_even) >> 16);
}

// Element type of a tensor, in memory, in files and on the wire. The values equal those of attention.v1.DataType.
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

// The name of the type in numpy: "float32", "bool".
absl::string_view DTypeName(DType dtype);

// True for the four floating-point types, which ToFloat32 converts.
bool IsFloat(DType dtype);

using Shape = std::vector<int64_t>;

// Maximum number of axes of a tensor in a file or a request.
inline constexpr int kMaxAxes = 8;

// "[1, 2, 3]"
std::string ShapeString(absl::Span<const int64_t> shape);

// Product of the sizes; nothing if a size is negative or the product overflows int64.
std::optional<int64_t> ElementCount(absl::Span<const int64_t> shape);

// ElementCount times DTypeSize; nothing if ElementCount is nothing or the product overflows int64.
std::optional<int64_t> ByteCount(absl::Span<const int64_t> shape, DType dtype);

// A dense row-major tensor. Does not own its bytes, which may have any alignment.
struct TensorView {
  DType dtype = DType::kFloat32;
  absl::Span<const int64_t> shape;
  const std::byte* data = nullptr;
};

// Converts `count` elements of a float type to float32. `src` may have any alignment. The result is exact for bfloat16
// and float16, including denormals; float64 is rounded to nearest even.
// REQUIRES: IsFloat(dtype).
void ToFloat32(DType dtype, const std::byte* src, int64_t count, float* dst);

// Converts `count` elements of float32 to a float type, rounded to nearest even. `dst` may have any alignment. Numbers
// that are too large become infinite; NaN stays NaN.
// REQUIRES: IsFloat(dtype).
void FromFloat32(const float* src, int64_t count, DType dtype, std::byte* dst);

}  // namespace attention::server
