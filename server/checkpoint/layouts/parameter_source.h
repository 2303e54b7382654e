#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "server/checkpoint/formats/tensor_map.h"
#include "server/checkpoint/tensor.h"

namespace attention::server {

// Where one parameter, in the shape that flax gives it, stands in a file: some rows of a tensor, perhaps transposed.
//
// Layouts other than flax's hold a kernel as a matrix [features out, features in]. Its rows are the heads one after
// another, so that the transposed matrix, read with three axes, is flax's kernel.
struct ParameterSource {
  const NamedTensor* tensor = nullptr;  // null: the file does not have the parameter
  int64_t begin = 0, end = 0;           // rows of the tensor, along its first axis
  bool transposed = false;              // the rows, as a matrix [end - begin, n], are the parameter's [n, end - begin]
  Shape shape;                          // of the parameter, as flax has it

  explicit operator bool() const { return tensor != nullptr; }
};

// The whole tensor as it stands, or no parameter if there is none.
ParameterSource WholeTensor(const NamedTensor* tensor);

// The parameter row-major in its shape, in the file's dtype, bit for bit. REQUIRES: the file has it.
std::vector<std::byte> ReadBytes(const ParameterSource& source);

// The parameter row-major in its shape; empty if the file does not have it. REQUIRES: a float type.
std::vector<float> ReadFloats(const ParameterSource& source);

}  // namespace attention::server
