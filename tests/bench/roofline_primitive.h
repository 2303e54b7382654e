#pragma once

#include <cstdint>
#include <memory>

#include "server/checkpoint/tensor.h"

namespace attention::bench {

// One of oneDNN's primitives with memory of its own. Any thread may run it, and runs it alone. Every function throws
// dnnl::error or std::bad_alloc.
class RooflinePrimitive {
 public:
  // [height, size] · [size, size], the sums float32. Where oneDNN has no bfloat16, bfloat16 is float32: so the engine
  // computes it then.
  static RooflinePrimitive Matmul(server::DType operands, int64_t height, int64_t size);

  // Softmax of each row of [rows, columns], in place.
  static RooflinePrimitive Softmax(int64_t rows, int64_t columns);

  void Run();

 private:
  struct Impl;
  explicit RooflinePrimitive(std::shared_ptr<Impl> impl);

  std::shared_ptr<Impl> impl_;
};

}  // namespace attention::bench
