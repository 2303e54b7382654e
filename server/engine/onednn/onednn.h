#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "server/checkpoint/tensor.h"
#include "server/engine/kernels/buffer.h"

namespace attention::server {

// True if the CPU has instructions for bfloat16, so that its products are faster than those of float32.
bool MultipliesBFloat16();

// How the weights of a product stand in memory.
enum class WeightsLayout : uint8_t {
  kPacked,      // as Onednn::Pack leaves them: fastest, worth the packing where they are used often
  kPlain,       // [k, n], row-major
  kTransposed,  // [n, k], row-major
};

// dst[m, n] = src[m, k] · weights[k, n] (+ bias[n] in every row)
struct MatmulShape {
  int64_t m = 0;
  int64_t k = 0;
  int64_t n = 0;
  bool with_bias = false;

  // Type of the numbers that are multiplied, src and weights: kFloat32 or kBFloat16. Bias, sums and dst are float32.
  DType operands = DType::kFloat32;
  WeightsLayout weights = WeightsLayout::kPacked;

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

  // Packs weights [k, n], rounded to `operands`.
  void Pack(int64_t k, int64_t n, DType operands, const float* weights, void* packed);

  // What was packed as kFloat32, as it was before.
  void Unpack(int64_t k, int64_t n, const void* packed, float* weights);

  // Bytes of one operand.
  int64_t OperandBytes(DType operands) const;

  // Rounds numbers to operands. REQUIRES: operands is not kFloat32.
  void ToOperands(DType operands, int64_t count, const float* numbers, void* to) const;

  // The numbers as operands: themselves for kFloat32, else rounded into `buffer`.
  const void* Operand(DType operands, int64_t count, const float* numbers, Buffer& buffer) const;

  // The same of [rows, columns] where each row is multiplied by its factor before it is rounded.
  // REQUIRES: operands is not kFloat32.
  const void* ScaledOperand(DType operands, int64_t rows, int64_t columns, const double* factors, const float* numbers,
                            Buffer& buffer);

  // `bias` is null unless the shape is with_bias.
  void Matmul(const MatmulShape& shape, const void* src, const void* weights, const float* bias, float* dst);

  // Replaces each row of scores [rows, columns] by its softmax.
  void Softmax(int64_t rows, int64_t columns, float* scores);

  // dst = tanh(src), each [rows, columns]. NaN does not stay NaN.
  void Tanh(int64_t rows, int64_t columns, const float* src, float* dst);

  // Makes the primitive now that the method of the same name would make when it is first called: a kernel is compiled
  // once for all threads, but that can take a millisecond.
  void MakeMatmul(const MatmulShape& shape);
  void MakeSoftmax(int64_t rows, int64_t columns);
  void MakeTanh(int64_t rows, int64_t columns);
  // Those of Pack and of Unpack.
  void MakePacking(int64_t k, int64_t n, DType operands);

  // Primitives that this object has made.
  int64_t primitives() const;

  // True if a row of the product with weights [k, n] has the same bits for every m and every place in the matrix.
  bool RowsAreIndependent(int64_t k, int64_t n, DType operands);

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace attention::server
