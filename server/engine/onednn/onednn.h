#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "server/checkpoint/tensor.h"
#include "server/engine/kernels/buffer.h"

namespace attention::server {

// True if the CPU has instructions for bfloat16, which make its products faster than those of float32.
bool MultipliesBFloat16();

// Memory layout of the weights of a product.
enum class WeightsLayout : uint8_t {
  kPacked,      // made by Onednn::Pack: the fastest, but packing pays only for weights that are used often
  kPlain,       // [k, n], row-major
  kTransposed,  // [n, k], row-major
};

// dst[m, n] = src[m, k] · weights[k, n] (+ bias[n] in every row)
struct MatmulShape {
  int64_t m = 0;
  int64_t k = 0;
  int64_t n = 0;
  bool with_bias = false;

  // Type of src and weights: kFloat32 or kBFloat16. Bias, sums and dst are float32.
  DType operands = DType::kFloat32;
  WeightsLayout weights = WeightsLayout::kPacked;

  bool accumulate = false;   // dst += the product
  bool exponential = false;  // dst = exp of each element; exp(NaN) is not NaN

  bool operator==(const MatmulShape&) const = default;
};

// oneDNN for one thread: stream, scratchpad, and a cache of primitives by shape. Matrices are row-major, except packed
// weights, whose layout oneDNN chooses; it is the same for every object of this class. Products never have less
// precision than their operands, regardless of ONEDNN_DEFAULT_FPMATH_MODE.
//
// bfloat16 operands are numbers rounded to bfloat16. If oneDNN does not support bfloat16 on this CPU, or computes
// wrong numbers with it (self_check.h), they are stored and multiplied as float32. Products of two bfloat16 numbers are
// exact in float32, so the results are equivalent.
//
// A primitive runs on the calling thread only: the constructor sets the number of OpenMP threads of its thread to one.
//
// Not thread-safe. Every method may throw dnnl::error (a std::exception) or std::bad_alloc.
class Onednn {
 public:
  enum class BFloat16 : uint8_t {
    kChecked,  // oneDNN's kernels if the CPU has bfloat16 and CheckedKernels() found no wrong number; same in all
               // objects
    kNative,   // oneDNN's kernels if the CPU has bfloat16; for the check itself
  };

  explicit Onednn(BFloat16 bfloat16 = BFloat16::kChecked);
  ~Onednn();

  // Size of packed weights [k, n] in bytes.
  int64_t PackedBytes(int64_t k, int64_t n, DType operands);

  // Rounds weights [k, n] to `operands` and packs them.
  void Pack(int64_t k, int64_t n, DType operands, const float* weights, void* packed);

  // Reverses Pack for kFloat32.
  void Unpack(int64_t k, int64_t n, const void* packed, float* weights);

  // Size of one operand in bytes.
  int64_t OperandBytes(DType operands) const;

  // Rounds numbers to operands. REQUIRES: `operands` is not kFloat32.
  void ToOperands(DType operands, int64_t count, const float* numbers, void* to) const;

  // Converts numbers to operands. Returns `numbers` for kFloat32, and else a copy in `buffer`.
  const void* Operand(DType operands, int64_t count, const float* numbers, Buffer& buffer) const;

  // The same for [rows, columns], where each row is multiplied by its factor before it is rounded.
  // REQUIRES: `operands` is not kFloat32.
  const void* ScaledOperand(DType operands, int64_t rows, int64_t columns, const double* factors, const float* numbers,
                            Buffer& buffer);

  // `bias` is [n] if shape.with_bias, and else ignored.
  void Matmul(const MatmulShape& shape, const void* src, const void* weights, const float* bias, float* dst);

  // Replaces each row of scores [rows, columns] by its softmax.
  void Softmax(int64_t rows, int64_t columns, float* scores);

  // dst = tanh(src), both [rows, columns]. tanh(NaN) is not NaN.
  void Tanh(int64_t rows, int64_t columns, const float* src, float* dst);

  // Creates the primitive that the method of the same name would create in its first call. Compiling a kernel takes up
  // to a millisecond, once for all threads.
  void MakeMatmul(const MatmulShape& shape);
  void MakeSoftmax(int64_t rows, int64_t columns);
  void MakeTanh(int64_t rows, int64_t columns);
  // The primitives of Pack and Unpack.
  void MakePacking(int64_t k, int64_t n, DType operands);

  // Number of primitives that this object has created.
  int64_t primitives() const;

  // True if a row of the product with packed weights [k, n] has the same bits for every m and at every position.
  bool RowsAreIndependent(int64_t k, int64_t n, DType operands);

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace attention::server
