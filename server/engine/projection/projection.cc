#include "server/engine/projection/projection.h"

#include <algorithm>

#include "server/engine/kernels/row_kernels.h"
#include "server/engine/onednn/tile_shapes.h"

namespace attention::server {
namespace {

template <typename Byte>
std::vector<int64_t> RowCounts(const std::vector<TensorRows<Byte>>& tensors) {
  std::vector<int64_t> counts;
  counts.reserve(tensors.size());
  for (const TensorRows<Byte>& tensor : tensors) counts.push_back(tensor.rows);
  return counts;
}

// The rows of a tile in their tensor, if they are in one tensor and are aligned float32; else null.
template <typename Byte>
Byte* Float32InPlace(const std::vector<TensorRows<Byte>>& tensors, const RowTile& tile, int64_t features) {
  const TensorRows<Byte>& tensor = tensors[tile.first_tensor];
  if (tile.first_row_in_tensor + tile.rows > tensor.rows || tensor.dtype != DType::kFloat32) return nullptr;
  Byte* data = tensor.data + tile.first_row_in_tensor * features * DTypeSize(tensor.dtype);
  return reinterpret_cast<uintptr_t>(data) % alignof(float) == 0 ? data : nullptr;
}

// Calls visit(part, done) for the part of the tile in each tensor; `done` rows of the tile precede it.
template <typename Byte, typename Visit>
void VisitRows(const std::vector<TensorRows<Byte>>& tensors, const RowTile& tile, int64_t features,
               const Visit& visit) {
  int64_t row = tile.first_row_in_tensor;
  for (int64_t done = 0, i = tile.first_tensor; done < tile.rows; ++i, row = 0) {
    const TensorRows<Byte>& tensor = tensors[i];
    const int64_t rows = std::min(tile.rows - done, tensor.rows - row);
    TensorRows<Byte> part = tensor;
    part.data += row * features * DTypeSize(tensor.dtype);
    part.rows = rows;
    if (rows > 0) visit(part, done);
    done += rows;
  }
}

// The rows of a tile as float32 [tile.rows, features]: in place if possible, else in `buffer`.
const float* GatherRows(const Projection& projection, const RowTile& tile, int64_t features, Buffer& buffer) {
  if (const std::byte* in_place = Float32InPlace(projection.inputs, tile, features)) {
    return reinterpret_cast<const float*>(in_place);
  }
  float* gathered = buffer.Reserve(kTileRows * features);
  VisitRows(projection.inputs, tile, features, [&](const InputRows& part, int64_t done) {
    ToFloat32(part.dtype, part.data, part.rows * features, gathered + done * features);
  });
  return gathered;
}

}  // namespace

std::vector<RowTile> CutRows(absl::Span<const int64_t> tensor_rows, bool across_tensors) {
  std::vector<RowTile> tiles;
  int64_t left = 0;  // rows that can share tiles with the current one
  for (const int64_t rows : tensor_rows) left += across_tensors ? rows : 0;
  int64_t first_row = 0;
  int64_t room = 0;  // rows that the last tile can still take
  for (size_t i = 0; i < tensor_rows.size(); ++i) {
    if (!across_tensors) left = tensor_rows[i];
    for (int64_t row = 0; row < tensor_rows[i];) {
      if (room == 0) {
        tiles.push_back({static_cast<int64_t>(i), row, first_row, 0});
        room = NextTile(left);
      }
      const int64_t rows = std::min(room, tensor_rows[i] - row);
      tiles.back().rows += rows;
      room -= rows;
      left -= rows;
      row += rows;
      first_row += rows;
    }
  }
  return tiles;
}

std::vector<RowTile> CutProjection(const Projection& projection) {
  const auto is_independent = [&](const Projection::Target& target) {
    return target.kernel->rows_are_independent(projection.operands);
  };
  const bool across = std::all_of(projection.targets.begin(), projection.targets.end(), is_independent);
  return CutRows(RowCounts(projection.inputs), across);
}

std::vector<RowTile> CutProjection(const OutputProjection& projection, const PackedKernel& out_kernel) {
  return CutRows(RowCounts(projection.outputs), out_kernel.rows_are_independent(projection.operands));
}

void ProjectTile(const Projection& projection, const RowTile& tile, Worker& worker) {
  const int64_t features = projection.targets.front().kernel->k();
  const float* rows = GatherRows(projection, tile, features, worker.gathered);
  const void* operand = TileOperand(worker, projection.operands, tile.rows, features, rows);
  for (const Projection::Target& target : projection.targets) {
    float* product = target.product + tile.first_row * target.kernel->n();
    target.kernel->Multiply(worker, projection.operands, tile.rows, operand, product);
    if (target.ln_scale == nullptr || target.ln_scale->empty()) continue;
    const auto head_dim = static_cast<int64_t>(target.ln_scale->size());
    NormalizeVectors(tile.rows * target.kernel->n() / head_dim, *target.ln_scale, product);
  }
}

void ProjectTile(const OutputProjection& projection, const RowTile& tile, const PackedKernel& out_kernel,
                 Worker& worker) {
  const int64_t features = out_kernel.n();
  const float* context = projection.context + tile.first_row * out_kernel.k();
  const void* operand = TileOperand(worker, projection.operands, tile.rows, out_kernel.k(), context);
  std::byte* const in_place = Float32InPlace(projection.outputs, tile, features);
  float* outputs =
      in_place == nullptr ? worker.outputs.Reserve(tile.rows * features) : reinterpret_cast<float*>(in_place);
  out_kernel.Multiply(worker, projection.operands, tile.rows, operand, outputs);
  VisitRows(projection.outputs, tile, features, [&](const OutputRows& part, int64_t done) {
    const int64_t count = part.rows * features;
    if (in_place == nullptr) FromFloat32(outputs + done * features, count, part.dtype, part.data);
    if (!AllFinite(part.dtype, part.data, count)) part.call->AddNonFinite(FormulaTensor::kOutput);
  });
}

}  // namespace attention::server
