#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "server/checkpoint/tensor.h"
#include "server/engine/onednn/onednn.h"

// Compares small problems of each kind that the engine gives to oneDNN with plain arithmetic. Some versions of oneDNN
// have kernels that compute wrong numbers on some CPUs and report success.
namespace attention::server {

// Computes the product of a shape from float32 numbers: src [m, k], weights [k, n] in any layout of the shape,
// bias [n] if the shape has one, dst [m, n].
using CheckedMatmul = absl::FunctionRef<void(const MatmulShape& shape, const float* src, const float* weights,
                                             const float* bias, float* dst)>;

// Computes a function of the numbers [rows, columns], in place.
using CheckedRows = absl::FunctionRef<void(int64_t rows, int64_t columns, float* numbers)>;

// Each returns INTERNAL, with the first number that is wrong, if the function is wrong.
absl::Status CheckMatmul(DType operands, CheckedMatmul matmul);
absl::Status CheckSoftmax(CheckedRows softmax);
absl::Status CheckTanh(CheckedRows tanh);

// What the checks say about oneDNN on this CPU.
struct SelfCheck {
  absl::Status float32;
  absl::Status bfloat16;
};

// The first call runs the checks, which takes some ten milliseconds, and logs what is wrong. Thread-safe. Throws
// std::bad_alloc; then the next call runs them again.
const SelfCheck& CheckedKernels();

}  // namespace attention::server
