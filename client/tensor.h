#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace attention {

// Element type of a tensor. The numbers are those of attention.v1.DataType.
enum class DataType : uint8_t {
  kFloat32 = 1,
  kBFloat16 = 2,
  kFloat16 = 3,
  kFloat64 = 4,
  kBool = 5,  // one byte an element, 0 or 1
  kInt32 = 10,
  kInt64 = 12,
};

// "float32", "bfloat16", "float16", "float64", "bool", "int32", "int64"; "unknown" for a number that is none of the
// enumeration.
absl::string_view Name(DataType dtype);

// Bytes of one element; 0 for a number that is none of the enumeration.
int64_t ElementBytes(DataType dtype);

// size(dtype) × product(shape). INVALID_ARGUMENT for a negative size, an unknown type, or a number of bytes that does
// not fit into int64_t.
absl::StatusOr<int64_t> ByteSize(DataType dtype, absl::Span<const int64_t> shape);

// A dense row-major tensor that belongs to the caller: what goes into a call. It only points; shape and bytes must stay
// until the function that takes it has returned. (The asynchronous calls copy before they return.)
struct TensorRef {
  DataType dtype = DataType::kFloat32;
  absl::Span<const int64_t> shape = {};
  // Row-major, little-endian, size(dtype) × product(shape) bytes, at any address.
  absl::Span<const char> bytes = {};
};

// A dense row-major tensor that owns its memory: what comes out of a call, and what can go into the next one.
struct Tensor {
  DataType dtype = DataType::kFloat32;
  std::vector<int64_t> shape = {};
  std::string bytes = {};  // as in TensorRef

  operator TensorRef() const& { return {dtype, shape, {bytes.data(), bytes.size()}}; }
  // A temporary would be gone before the reference is used.
  operator TensorRef() const&& = delete;

  // The elements as float32, converted from whichever type they have.
  std::vector<float> Floats() const;

  // The elements of an int32 or int64 tensor; nothing of another one.
  std::vector<int64_t> Integers() const;
};

// A float32 tensor over the caller's numbers and shape, which must stay:
//   const std::vector<float> numbers = {1, 1, 1, 1, 1, 1};
//   const std::vector<int64_t> shape = {1, 2, 3};
//   Float32(numbers, shape)
inline TensorRef Float32(absl::Span<const float> values, absl::Span<const int64_t> shape) {
  return {DataType::kFloat32, shape, {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)}};
}

// The same of integers: segment ids.
inline TensorRef Int32(absl::Span<const int32_t> values, absl::Span<const int64_t> shape) {
  return {DataType::kInt32, shape, {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int32_t)}};
}
inline TensorRef Int64(absl::Span<const int64_t> values, absl::Span<const int64_t> shape) {
  return {DataType::kInt64, shape, {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int64_t)}};
}

// A mask over the caller's bytes, one an element, 1 = attend, 0 = hide.
inline TensorRef Bool(absl::Span<const uint8_t> values, absl::Span<const int64_t> shape) {
  return {DataType::kBool, shape, {reinterpret_cast<const char*>(values.data()), values.size()}};
}

}  // namespace attention
