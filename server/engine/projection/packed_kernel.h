#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "server/engine/attention/worker.h"
#include "server/engine/kernels/buffer.h"
#include "server/engine/layer.h"
#include "server/engine/onednn/onednn.h"

namespace attention::server {

// Converts rows [rows, k] of a tile to an operand [TileHeight(rows), k]; the added rows are 0. Returns `src` if nothing
// has to be changed, and else memory of the worker. REQUIRES: 1 <= rows <= kTileRows.
const void* TileOperand(Worker& worker, DType operands, int64_t rows, int64_t k, const float* src);

// A kernel [k, n] in oneDNN's packed layout, with its bias. Thread-safe after construction.
class PackedKernel {
 public:
  // REQUIRES: `kernel` has k × n numbers; `bias` has n numbers or is empty.
  PackedKernel(Onednn& onednn, int64_t k, int64_t n, const std::vector<float>& kernel, const std::vector<float>& bias);

  int64_t k() const { return k_; }
  int64_t n() const { return n_; }
  int64_t bytes() const { return float32_.packed.bytes() + bias_.bytes(); }

  // Packs the kernel for an operand type, unless it is packed already. The constructor packs it for float32. Must be
  // called before the methods below are called with that type.
  void Prepare(Onednn& onednn, DType operands) const;

  // True if rows of different requests can share a matmul without changing bits: Onednn::RowsAreIndependent.
  bool rows_are_independent(DType operands) const { return For(operands).rows_are_independent; }

  // dst[rows, n] = operand[rows, k] · kernel + bias. REQUIRES: `operand` was returned by TileOperand.
  void Multiply(Worker& worker, DType operands, int64_t rows, const void* operand, float* dst) const;

 private:
  struct Packed {
    Buffer packed;
    bool rows_are_independent = false;
  };

  const Packed& For(DType operands) const { return operands == DType::kBFloat16 ? bfloat16_ : float32_; }
  void Pack(Onednn& onednn, DType operands, const float* kernel, Packed& packed) const;

  const int64_t k_;
  const int64_t n_;
  const bool with_bias_;
  Packed float32_;
  Buffer bias_;

  mutable std::once_flag bfloat16_once_;  // an exception leaves it to the next call
  mutable Packed bfloat16_;               // constant once it is prepared
};

// The kernels and LayerNorm scales of a layer. The kernels are matrices: query, key and value [features, heads ×
// head_dim], out [num_heads × value_head_dim, out_features]. The scales are empty if the layer has no LayerNorm.
class PackedKernels {
 public:
  PackedKernels(Onednn& onednn, const LayerParameters& parameters);

  void Prepare(Onednn& onednn, DType operands) const;
  int64_t bytes() const;

  const PackedKernel query;
  const PackedKernel key;
  const PackedKernel value;
  const PackedKernel out;
  const std::vector<float> query_ln_scale;
  const std::vector<float> key_ln_scale;
};

}  // namespace attention::server
