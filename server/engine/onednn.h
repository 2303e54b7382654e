#pragma once

#include <cstdint>
#include <memory>

namespace attention::server {

// dst[m, n] = src[m, k] · weights[k, n] (+ bias[n] in every row)
struct MatmulShape {
  int64_t m = 0;
  int64_t k = 0;
  int64_t n = 0;
  bool with_bias = false;

  bool operator==(const MatmulShape&) const = default;
};

// One thread's oneDNN: its stream, its scratchpad, and the primitives that it has used, by shape. Everything is float32
// and row-major, except packed weights, whose layout is oneDNN's choice and the same in every object of this class.
// Products are never of lower precision, whatever ONEDNN_DEFAULT_FPMATH_MODE says.
//
// A primitive runs on the calling thread alone: constructing an object sets that thread's OpenMP team to one.
//
// Not thread-safe. Every method throws dnnl::error (a std::exception) or std::bad_alloc.
class Onednn {
 public:
  Onednn();
  ~Onednn();

  // Floats that packed weights [k, n] take.
  int64_t PackedSize(int64_t k, int64_t n);

  // Packs weights [k, n], or, for PackTransposed, the transpose of a matrix [n, k].
  void Pack(int64_t k, int64_t n, const float* weights, float* packed);
  void PackTransposed(int64_t k, int64_t n, const float* matrix, float* packed);

  // `bias` is null unless the shape is with_bias.
  void Matmul(const MatmulShape& shape, const float* src, const float* packed, const float* bias, float* dst);

  // Replaces each row of scores [rows, columns] by its softmax.
  void Softmax(int64_t rows, int64_t columns, float* scores);

  // True if a row of the product with weights [k, n] has the same bits for every m and every place in the matrix.
  bool RowsAreIndependent(int64_t k, int64_t n);

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace attention::server
