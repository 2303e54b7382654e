#include "server/engine/projection/packed_kernel.h"

#include <algorithm>

#include "server/engine/onednn/tile_shapes.h"

namespace attention::server {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);

}  // namespace

const void* TileOperand(Worker& worker, DType operands, int64_t rows, int64_t k, const float* src) {
  const int64_t height = TileHeight(rows);
  if (height != rows) {
    // The primitive reads a full tile, and the memory after the last row may belong to another thread.
    float* padded = worker.rows_in.Reserve(height * k);
    std::copy_n(src, rows * k, padded);
    std::fill(padded + rows * k, padded + height * k, 0.0f);
    src = padded;
  }
  return worker.onednn.Operand(operands, height * k, src, worker.operand);
}

PackedKernel::PackedKernel(Onednn& onednn, int64_t k, int64_t n, const std::vector<float>& kernel,
                           const std::vector<float>& bias)
    : k_(k), n_(n), with_bias_(!bias.empty()) {
  Pack(onednn, DType::kFloat32, kernel.data(), float32_);
  if (with_bias_) std::copy(bias.begin(), bias.end(), bias_.Reserve(n));
}

void PackedKernel::Pack(Onednn& onednn, DType operands, const float* kernel, Packed& packed) const {
  packed.rows_are_independent = onednn.RowsAreIndependent(k_, n_, operands);
  packed.packed.Reserve((onednn.PackedBytes(k_, n_, operands) + kFloatBytes - 1) / kFloatBytes);
  onednn.Pack(k_, n_, operands, kernel, packed.packed.data());
}

void PackedKernel::Prepare(Onednn& onednn, DType operands) const {
  if (operands != DType::kBFloat16) return;
  std::call_once(bfloat16_once_, [&] {
    Buffer kernel(k_ * n_);
    onednn.Unpack(k_, n_, float32_.packed.data(), kernel.data());
    Pack(onednn, operands, kernel.data(), bfloat16_);
  });
}

void PackedKernel::Multiply(Worker& worker, DType operands, int64_t rows, const void* operand, float* dst) const {
  const int64_t height = TileHeight(rows);
  const MatmulShape shape{.m = height, .k = k_, .n = n_, .with_bias = with_bias_, .operands = operands};
  float* out = height == rows ? dst : worker.rows_out.Reserve(height * n_);
  worker.onednn.Matmul(shape, operand, For(operands).packed.data(), bias_.data(), out);
  if (out != dst) std::copy_n(out, rows * n_, dst);
}

PackedKernels::PackedKernels(Onednn& onednn, const LayerParameters& p)
    : query(onednn, p.shape.in_features, p.shape.heads.query_features(), p.query_kernel, p.query_bias),
      key(onednn, p.shape.in_k_features, p.shape.heads.key_features(), p.key_kernel, p.key_bias),
      value(onednn, p.shape.in_v_features, p.shape.heads.value_features(), p.value_kernel, p.value_bias),
      out(onednn, p.shape.heads.context_features(), p.shape.out_features, p.out_kernel, p.out_bias),
      query_ln_scale(p.query_ln_scale),
      key_ln_scale(p.key_ln_scale) {}

void PackedKernels::Prepare(Onednn& onednn, DType operands) const {
  for (const PackedKernel* kernel : {&query, &key, &value, &out}) kernel->Prepare(onednn, operands);
}

int64_t PackedKernels::bytes() const {
  const auto norms = static_cast<int64_t>(query_ln_scale.size() + key_ln_scale.size());
  return query.bytes() + key.bytes() + value.bytes() + out.bytes() + norms * kFloatBytes;
}

}  // namespace attention::server
