#include "server/engine/packing.h"

#include <algorithm>

#include "server/engine/tile_plan.h"

namespace attention::server {

PackedKernel::PackedKernel(Onednn& onednn, int64_t k, int64_t n, const std::vector<float>& kernel,
                           const std::vector<float>& bias)
    : k_(k),
      n_(n),
      with_bias_(!bias.empty()),
      rows_are_independent_(onednn.RowsAreIndependent(k, n)),
      packed_(onednn.PackedSize(k, n)) {
  onednn.Pack(k, n, kernel.data(), packed_.data());
  if (with_bias_) std::copy(bias.begin(), bias.end(), bias_.Reserve(n));
}

void PackedKernel::Multiply(Worker& worker, int64_t rows, const float* src, float* dst) const {
  const int64_t height = TileHeight(rows);
  const MatmulShape shape{height, k_, n_, with_bias_};
  if (height == rows) return worker.onednn.Matmul(shape, src, packed_.data(), bias_.data(), dst);

  // The primitive computes whole tiles; what lies behind the last row of src and dst may be another thread's.
  float* in = worker.rows_in.Reserve(height * k_);
  float* out = worker.rows_out.Reserve(height * n_);
  std::copy_n(src, rows * k_, in);
  std::fill(in + rows * k_, in + height * k_, 0.0f);
  worker.onednn.Matmul(shape, in, packed_.data(), bias_.data(), out);
  std::copy_n(out, rows * n_, dst);
}

PackedKernels::PackedKernels(Onednn& onednn, const LayerParameters& p)
    : query(onednn, p.shape.in_features, p.shape.qkv_features(), p.query_kernel, p.query_bias),
      key(onednn, p.shape.in_k_features, p.shape.qkv_features(), p.key_kernel, p.key_bias),
      value(onednn, p.shape.in_v_features, p.shape.qkv_features(), p.value_kernel, p.value_bias),
      out(onednn, p.shape.qkv_features(), p.shape.out_features, p.out_kernel, p.out_bias) {}

}  // namespace attention::server
