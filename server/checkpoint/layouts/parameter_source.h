#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "server/checkpoint/formats/tensor_map.h"
#include "server/checkpoint/tensor.h"

namespace attention::server {

// Where the values of one parameter are in a file: some rows of a tensor, transposed or not.
//
// Layouts other than flax store a kernel as a matrix [out_features, in_features]. Its rows are the heads one after
// another, so the transposed matrix, read with three axes, is the kernel of flax.
struct ParameterSource {
  const NamedTensor* tensor = nullptr;  // null: the file does not have the parameter
  int64_t begin = 0, end = 0;           // rows of the tensor, along its first axis
  bool transposed = false;              // the rows are a matrix [end - begin, n], the parameter is [n, end - begin]
  Shape shape;                          // of the parameter in the flax layout

  explicit operator bool() const { return tensor != nullptr; }
};

// The whole tensor, not transposed. Null gives a parameter that the file does not have.
ParameterSource WholeTensor(const NamedTensor* tensor);

// The bytes of the parameter, row-major in its shape, in the dtype of the file. REQUIRES: the file has it.
std::vector<std::byte> ReadBytes(const ParameterSource& source);

// The values of the parameter, row-major in its shape; empty if the file does not have it. REQUIRES: a float type.
std::vector<float> ReadFloats(const ParameterSource& source);

}  // namespace attention::server
