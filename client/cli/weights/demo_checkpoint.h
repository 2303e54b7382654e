#pragma once

#include <map>
#include <string>

#include "client/tensor.h"

namespace attention::cli {

// The tensors of the demo checkpoint, by name ("ones/query/kernel"), float32:
//   ones   the public question's layer: 3 features, 1 head of 4 numbers, kernels of ones, out kernel the identity
//   small  256 features, 4 heads
//   base   768 features, 12 heads
// small and base hold normally distributed kernels of deviation 1/√(fan in), the same on every run.
std::map<std::string, Tensor> MakeDemoCheckpoint();

}  // namespace attention::cli
