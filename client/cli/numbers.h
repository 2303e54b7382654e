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

}  // namespace attention::cli
