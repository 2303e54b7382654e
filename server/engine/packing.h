#pragma once

#include <cstdint>
#include <vector>

#include "server/engine/buffer.h"
#include "server/engine/layer.h"
#include "server/engine/onednn.h"
#include "server/engine/worker.h"

namespace attention::server {

// A kernel [k, n] in oneDNN's packed layout, with its bias.
class PackedKernel {
 public:
  // REQUIRES: kernel has k × n numbers, bias n or none.
  PackedKernel(Onednn& onednn, int64_t k, int64_t n, const std::vector<float>& kernel, const std::vector<float>& bias);

  int64_t k() const { return k_; }
  int64_t n() const { return n_; }
  int64_t bytes() const { return packed_.bytes() + bias_.bytes(); }

  // True if rows of different requests can share a matmul without a change of bits (see Onednn::RowsAreIndependent).
  bool rows_are_independent() const { return rows_are_independent_; }

  // dst[rows, n] = src[rows, k] · kernel + bias. REQUIRES: 1 <= rows <= kTileRows.
  void Multiply(Worker& worker, int64_t rows, const float* src, float* dst) const;

 private:
  const int64_t k_;
  const int64_t n_;
  const bool with_bias_;
  const bool rows_are_independent_;
  Buffer packed_;
  Buffer bias_;
};

// The four kernels of a layer, flattened: query, key and value are [features, num_heads × head_dim], out is [num_heads
// × head_dim, out_features].
class PackedKernels {
 public:
  PackedKernels(Onednn& onednn, const LayerParameters& parameters);

  const PackedKernel query;
  const PackedKernel key;
  const PackedKernel value;
  const PackedKernel out;
};

}  // namespace attention::server
