#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "server/checkpoint/tensor.h"
#include "server/engine/attention/worker.h"
#include "server/engine/projection/packed_kernel.h"

namespace attention::server {

// Rows [rows, features] of one call's tensor: its tokens, or what becomes of them.
struct RowSegment {
  DType dtype = DType::kFloat32;
  const std::byte* data = nullptr;
  int64_t rows = 0;
};

// Tokens that are projected alike, laid end to end over all calls of a batch, and where their projections go.
struct TokenStream {
  // A product with one kernel; `rows` is [all rows of the stream, kernel->n()]. With a scale, each head_dim numbers of
  // the product then pass through LayerNorm.
  struct Target {
    const PackedKernel* kernel = nullptr;
    float* rows = nullptr;
    const std::vector<float>* ln_scale = nullptr;  // null or empty: no LayerNorm
  };

  std::vector<RowSegment> segments;
  std::vector<Target> targets;  // kernels with the same k
  DType operands = DType::kFloat32;
};

// Consecutive rows of a stream that are multiplied at once; they may belong to several segments.
struct RowTile {
  int64_t first_segment = 0;
  int64_t first_row_in_segment = 0;
  int64_t first_row = 0;  // in the stream
  int64_t rows = 0;
};

// Cuts `segments` into tiles of at most kTileRows rows. A tile crosses from one segment into the next only if
// `across_segments`; see PackedKernel::rows_are_independent.
std::vector<RowTile> CutRows(absl::Span<const RowSegment> segments, bool across_segments);

// As CutRows, by what the stream's kernels allow.
std::vector<RowTile> CutStream(const TokenStream& stream);

// Converts one tile to float32 and multiplies it with every kernel of the stream.
void ProjectTile(const TokenStream& stream, const RowTile& tile, Worker& worker);

}  // namespace attention::server
