#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace attention {

// Element type of a tensor, with the numbers of attention.v1.DataType.
enum class DataType : uint8_t {
  kFloat32 = 1,
  kBFloat16 = 2,
  kFloat16 = 3,
  kFloat64 = 4,
  kBool = 5,  // one byte for each element, 0 or 1
  kInt32 = 10,
  kInt64 = 12,
};

// "float32", "bfloat16", "float16", "float64", "bool", "int32" or "int64"; "unknown" for any other number.
absl::string_view Name(DataType dtype);

// Bytes of one element; 0 for an unknown type.
int64_t ElementBytes(DataType dtype);

// ElementBytes(dtype) × product(shape). INVALID_ARGUMENT if the type is unknown, an axis is negative, or the result
// exceeds int64_t.
absl::StatusOr<int64_t> ByteSize(DataType dtype, absl::Span<const int64_t> shape);

// A view of a dense row-major tensor that the caller owns: an input of a call. Shape and bytes must outlive the
// function that takes it. (Asynchronous calls copy before they return.)
struct TensorRef {
  DataType dtype = DataType::kFloat32;
  absl::Span<const int64_t> shape = {};
  // Row-major, little-endian, ElementBytes(dtype) × product(shape) bytes. May be unaligned.
  absl::Span<const char> bytes = {};
};

// A dense row-major tensor that owns its memory: an output of a call, and an input of the next one if needed.
struct Tensor {
  DataType dtype = DataType::kFloat32;
  std::vector<int64_t> shape = {};
  std::string bytes = {};  // as in TensorRef

  operator TensorRef() const& { return {dtype, shape, {bytes.data(), bytes.size()}}; }
  // A reference to a temporary would dangle.
  operator TensorRef() const&& = delete;

  // The elements, converted to float32 from any type.
  std::vector<float> Floats() const;

  // The elements of an int32 or int64 tensor; empty for any other type.
  std::vector<int64_t> Integers() const;
};

// A float32 tensor that refers to the caller's numbers and shape, which must outlive it:
//   const std::vector<float> numbers = {1, 1, 1, 1, 1, 1};
//   const std::vector<int64_t> shape = {1, 2, 3};
//   Float32(numbers, shape)
inline TensorRef Float32(absl::Span<const float> values, absl::Span<const int64_t> shape) {
  return {DataType::kFloat32, shape, {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)}};
}

// The same for integers, which are the types of segment ids.
inline TensorRef Int32(absl::Span<const int32_t> values, absl::Span<const int64_t> shape) {
  return {DataType::kInt32, shape, {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int32_t)}};
}
inline TensorRef Int64(absl::Span<const int64_t> values, absl::Span<const int64_t> shape) {
  return {DataType::kInt64, shape, {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int64_t)}};
}

// The same for a mask: one byte for each element, 1 = attend, 0 = hide.
inline TensorRef Bool(absl::Span<const uint8_t> values, absl::Span<const int64_t> shape) {
  return {DataType::kBool, shape, {reinterpret_cast<const char*>(values.data()), values.size()}};
}

}  // namespace attention
