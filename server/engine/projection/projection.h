#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "server/checkpoint/tensor.h"
#include "server/engine/attention/worker.h"
#include "server/engine/attention_call.h"
#include "server/engine/projection/packed_kernel.h"

namespace attention::server {

// Consecutive rows [rows, features] of one tensor. The bytes may be at any address.
template <typename Byte>
struct TensorRows {
  DType dtype = DType::kFloat32;
  Byte* data = nullptr;
  int64_t rows = 0;
  const AttentionCall* call = nullptr;  // that the tensor belongs to
};

using InputRows = TensorRows<const std::byte>;
using OutputRows = TensorRows<std::byte>;

// Tokens of several calls, multiplied by the same kernels. The rows of `inputs` are numbered end to end, and results
// are written in that order.
struct Projection {
  // One kernel and where its product [all rows, kernel->n()] is written. With `ln_scale`, each head_dim numbers of the
  // product are then normalized by LayerNorm.
  struct Target {
    const PackedKernel* kernel = nullptr;
    float* product = nullptr;
    const std::vector<float>* ln_scale = nullptr;  // null or empty: no LayerNorm
  };

  std::vector<InputRows> inputs;
  std::vector<Target> targets;  // kernels with the same k
  DType operands = DType::kFloat32;
};

// Context rows of several calls, multiplied by the out kernel. Row i of `context` produces row i of `outputs`, whose
// rows are numbered end to end.
struct OutputProjection {
  DType operands = DType::kFloat32;
  const float* context = nullptr;  // [all rows, num_heads × value_head_dim]
  std::vector<OutputRows> outputs;
};

// Consecutive rows of several tensors that one matmul multiplies; at most kTileRows.
struct RowTile {
  int64_t first_tensor = 0;
  int64_t first_row_in_tensor = 0;
  int64_t first_row = 0;  // counted over all tensors
  int64_t rows = 0;
};

// Cuts tensors of these numbers of rows into tiles. A tile contains rows of more than one tensor only if
// `across_tensors`; see PackedKernel::rows_are_independent.
std::vector<RowTile> CutRows(absl::Span<const int64_t> tensor_rows, bool across_tensors);

// CutRows for a projection; its kernels decide whether tiles may cross tensors.
std::vector<RowTile> CutProjection(const Projection& projection);
std::vector<RowTile> CutProjection(const OutputProjection& projection, const PackedKernel& out_kernel);

// Converts one tile to float32, multiplies it by every kernel and writes the products.
void ProjectTile(const Projection& projection, const RowTile& tile, Worker& worker);

// Multiplies one tile of context rows by the out kernel and writes the outputs in their types.
void ProjectTile(const OutputProjection& projection, const RowTile& tile, const PackedKernel& out_kernel,
                 Worker& worker);

}  // namespace attention::server
