#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "server/engine/buffer.h"
#include "server/engine/tensor.h"

namespace attention::server {

// dst[m, n] = src[m, k] · weights[k, n] (+ bias[n] in every row)
struct MatmulShape {
  int64_t m = 0;
  int64_t k = 0;
  int64_t n = 0;
  bool with_bias = false;

  // Type of the numbers that are multiplied, src and weights: kFloat32 or kBFloat16. Bias, sums and dst are float32.
  DType operands = DType::kFloat32;

  bool accumulate = false;   // dst += the product
  bool exponential = false;  // dst = the exponential of each element; that of NaN is not NaN

  bool operator==(const MatmulShape&) const = default;
};

// One thread's oneDNN: its stream, its scratchpad, and the primitives that it has used, by shape. Matrices are
// row-major, except packed weights, whose layout is oneDNN's choice and the same in every object of this class.
// Products are never of lower precision than their operands, whatever ONEDNN_DEFAULT_FPMATH_MODE says.
//
// bfloat16 operands are numbers that were rounded to bfloat16. Where oneDNN has no bfloat16 on this CPU they are kept
// and multiplied as float32: their products are exact in it, so the results mean the same.
//
// A primitive runs on the calling thread alone: constructing an object sets that thread's OpenMP team to one.
//
// Not thread-safe. Every method throws dnnl::error (a std::exception) or std::bad_alloc.
class Onednn {
 public:
  Onednn();
  ~Onednn();

  // Bytes that packed weights [k, n] take.
  int64_t PackedBytes(int64_t k, int64_t n, DType operands);

  // Packs weights [k, n], or, for PackTransposed, the transpose of a matrix [n, k]; rounds them to `operands`.
  void Pack(int64_t k, int64_t n, DType operands, const float* weights, void* packed);
  void PackTransposed(int64_t k, int64_t n, DType operands, const float* matrix, void* packed);

  // What was packed as kFloat32, as it was before.
  void Unpack(int64_t k, int64_t n, const void* packed, float* weights);

  // The numbers as a src takes them: themselves for kFloat32, else rounded into `buffer`.
  const void* Operand(DType operands, int64_t count, const float* numbers, Buffer& buffer) const;

  // The same of [rows, columns] where each row is multiplied by its factor before it is rounded.
  // REQUIRES: operands is not kFloat32.
  const void* ScaledOperand(DType operands, int64_t rows, int64_t columns, const double* factors, const float* numbers,
                            Buffer& buffer);

  // `bias` is null unless the shape is with_bias.
  void Matmul(const MatmulShape& shape, const void* src, const void* packed, const float* bias, float* dst);

  // Replaces each row of scores [rows, columns] by its softmax.
  void Softmax(int64_t rows, int64_t columns, float* scores);

  // dst = tanh(src), each [rows, columns]. NaN does not stay NaN.
  void Tanh(int64_t rows, int64_t columns, const float* src, float* dst);

  // True if a row of the product with weights [k, n] has the same bits for every m and every place in the matrix.
  bool RowsAreIndependent(int64_t k, int64_t n, DType operands);

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace attention::server
