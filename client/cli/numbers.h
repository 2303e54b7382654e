#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/attention_client.h"
#include "client/tensor.h"

namespace attention::cli {

// A dense row-major tensor as float64 numbers, to print and to calculate with. Every other type converts without
// rounding (int64 up to 2^53); true is 1, false is 0.
struct Numbers {
  DataType dtype = DataType::kFloat32;  // of the original tensor
  std::vector<int64_t> shape;
  std::vector<double> values;

  int64_t rank() const { return static_cast<int64_t>(shape.size()); }
};

// INVALID_ARGUMENT if the number of bytes does not match the shape.
absl::StatusOr<Numbers> ToNumbers(const TensorRef& tensor);

double RoundToBFloat16(double value);

// Broadcasts a tensor to `shape`, [batch…, num_heads, q_length, kv_length], as numpy does: axes are aligned at the
// right, and an axis of size 1, or a missing one on the left, is repeated. Row-major. INVALID_ARGUMENT if an axis is
// neither 1 nor that of `shape`.
absl::StatusOr<std::vector<double>> Broadcast(const Numbers& tensor, absl::Span<const int64_t> shape);

// Brings a tensor of attention without projections to [batch…, length, heads, width], the shape of query, key, value
// and context in a reply. INVALID_ARGUMENT if its shape does not have that number of heads in those axes.
absl::StatusOr<Numbers> ToLengthHeads(const Numbers& tensor, HeadAxes axes, int64_t heads);

}  // namespace attention::cli
