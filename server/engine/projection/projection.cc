#include "server/engine/projection/projection.h"

#include <algorithm>

#include "server/engine/kernels/layer_norm.h"
#include "server/engine/onednn/tile_shapes.h"

namespace attention::server {
namespace {

// The rows of a tile as float32, [tile.rows, features]: in place where they are float32 already and stand together.
const float* GatherRows(const TokenStream& stream, const RowTile& tile, int64_t features, Buffer& buffer) {
  const RowSegment* segment = &stream.segments[tile.first_segment];
  const auto row_at = [&](int64_t row) { return segment->data + row * features * DTypeSize(segment->dtype); };
  const bool in_one = tile.first_row_in_segment + tile.rows <= segment->rows;
  if (in_one && segment->dtype == DType::kFloat32) {
    const std::byte* first = row_at(tile.first_row_in_segment);
    if (reinterpret_cast<uintptr_t>(first) % alignof(float) == 0) return reinterpret_cast<const float*>(first);
  }
  float* gathered = buffer.Reserve(kTileRows * features);
  int64_t row_in_segment = tile.first_row_in_segment;
  for (int64_t done = 0; done < tile.rows; ++segment, row_in_segment = 0) {
    const int64_t rows = std::min(tile.rows - done, segment->rows - row_in_segment);
    if (rows > 0) ToFloat32(segment->dtype, row_at(row_in_segment), rows * features, gathered + done * features);
    done += rows;
  }
  return gathered;
}

}  // namespace

std::vector<RowTile> CutRows(absl::Span<const RowSegment> segments, bool across_segments) {
  std::vector<RowTile> tiles;
  int64_t left = 0;  // that can share tiles with the rows at hand
  for (const RowSegment& segment : segments) left += across_segments ? segment.rows : 0;
  int64_t first_row = 0;
  int64_t room = 0;  // what the last tile can still take
  for (size_t i = 0; i < segments.size(); ++i) {
    if (!across_segments) left = segments[i].rows;
    for (int64_t row = 0; row < segments[i].rows;) {
      if (room == 0) {
        tiles.push_back({static_cast<int64_t>(i), row, first_row, 0});
        room = NextTile(left);
      }
      const int64_t rows = std::min(room, segments[i].rows - row);
      tiles.back().rows += rows;
      room -= rows;
      left -= rows;
      row += rows;
      first_row += rows;
    }
  }
  return tiles;
}

std::vector<RowTile> CutStream(const TokenStream& stream) {
  const bool across = std::all_of(stream.targets.begin(), stream.targets.end(), [&](const TokenStream::Target& target) {
    return target.kernel->rows_are_independent(stream.operands);
  });
  return CutRows(stream.segments, across);
}

void ProjectTile(const TokenStream& stream, const RowTile& tile, Worker& worker) {
  const int64_t features = stream.targets.front().kernel->k();
  const float* rows = GatherRows(stream, tile, features, worker.gathered);
  const void* operand = TileOperand(worker, stream.operands, tile.rows, features, rows);
  for (const TokenStream::Target& target : stream.targets) {
    float* to = target.rows + tile.first_row * target.kernel->n();
    target.kernel->Multiply(worker, stream.operands, tile.rows, operand, to);
    if (target.ln_scale == nullptr || target.ln_scale->empty()) continue;
    const auto head_dim = static_cast<int64_t>(target.ln_scale->size());
    NormalizeVectors(tile.rows * target.kernel->n() / head_dim, *target.ln_scale, to);
  }
}

}  // namespace attention::server
