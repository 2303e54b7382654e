#pragma once

#include <cstdint>
#include <vector>

#include "absl/base/call_once.h"
#include "server/engine/attention/worker.h"
#include "server/engine/kernels/buffer.h"
#include "server/engine/layer.h"
#include "server/engine/onednn/onednn.h"

namespace attention::server {

// The rows of a tile as a product with operands of that type takes them: TileHeight(rows) of them, those behind the
// last one 0. In place where they are so already. REQUIRES: 1 <= rows <= kTileRows.
const void* TileOperand(Worker& worker, DType operands, int64_t rows, int64_t k, const float* src);

// A kernel [k, n] in oneDNN's packed layout, with its bias. Thread-safe but for the construction.
class PackedKernel {
 public:
  // REQUIRES: kernel has k × n numbers, bias n or none.
  PackedKernel(Onednn& onednn, int64_t k, int64_t n, const std::vector<float>& kernel, const std::vector<float>& bias);

  int64_t k() const { return k_; }
  int64_t n() const { return n_; }
  int64_t bytes() const { return float32_.packed.bytes() + bias_.bytes(); }

  // Packs the kernel for these operands if it is not packed for them: float32 always is, bfloat16 from the first call
  // that asks for it. To be called before the methods below are called with them.
  void Prepare(Onednn& onednn, DType operands) const;

  // True if rows of different requests can share a matmul without a change of bits (see Onednn::RowsAreIndependent).
  bool rows_are_independent(DType operands) const { return For(operands).rows_are_independent; }

  // dst[rows, n] = operand[rows, k] · kernel + bias. REQUIRES: `operand` is a TileOperand.
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

  mutable absl::once_flag bfloat16_once_;
  mutable Packed bfloat16_;  // constant once it is prepared
};

// The four kernels of a layer, flattened: query, key and value are [features, heads × head_dim], out is [num_heads ×
// value_head_dim, out_features]; and the scales of the LayerNorms, empty if there are none.
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
