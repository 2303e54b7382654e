#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/tensor.h"

namespace attention::cli {

// A dense row-major tensor as float64 numbers: to be printed, and to be calculated with by hand. Every other type goes
// in without rounding (int64 up to 2^53); true is 1, false is 0.
struct Numbers {
  DataType dtype = DataType::kFloat32;  // of the tensor that it was
  std::vector<int64_t> shape;
  std::vector<double> values;

  int64_t rank() const { return static_cast<int64_t>(shape.size()); }
};

// INVALID_ARGUMENT if the bytes are not those of the shape.
absl::StatusOr<Numbers> ToNumbers(const TensorRef& tensor);

double RoundToBFloat16(double value);

// Spreads a tensor to `shape`, [batch…, num_heads, q_length, kv_length], aligned at the right: an axis of size 1, or
// one that is missing on the left, holds for all. Row-major. INVALID_ARGUMENT if an axis is neither 1 nor that of
// `shape`.
absl::StatusOr<std::vector<double>> Broadcast(const Numbers& tensor, absl::Span<const int64_t> shape);

}  // namespace attention::cli
