#include "server/engine/attention/tile.h"

#include <algorithm>

#include "server/engine/kernels/row_kernels.h"

namespace attention::server {

absl::Span<const KeyChunk> Tile::chunks() const {
  const std::vector<KeyChunk>& all = worker.head.chunks();
  const auto first = std::find_if(all.begin(), all.end(), [&](const KeyChunk& c) { return c.range.end > keys.begin; });
  const auto last = std::find_if(first, all.end(), [&](const KeyChunk& c) { return c.range.begin >= keys.end; });
  return absl::MakeConstSpan(all).subspan(first - all.begin(), last - first);
}

float* ScaledQueries(const Tile& tile) {
  const int64_t size = tile.head_dim();
  const int64_t width = size + 1;
  float* queries = tile.worker.query.Reserve(tile.height() * width);
  tile.queries.Read(tile.first_query, tile.rows, queries, width);
  ScaleRows({queries, tile.rows, size, width}, tile.call.options.scale, queries, width);
  for (int64_t row = 0; row < tile.rows; ++row) queries[row * width + size] = 0;
  std::fill(queries + tile.rows * width, queries + tile.height() * width, 0.0f);
  return queries;
}

const void* QueryOperand(const Tile& tile, const float* scaled_queries) {
  const int64_t count = tile.height() * (tile.head_dim() + 1);
  return tile.worker.onednn.Operand(tile.operands(), count, scaled_queries, tile.worker.operand);
}

bool HasFiniteContext(const Tile& tile, const TileResult& result, int64_t row) {
  // The product with the factor is rounded.
  constexpr float kRounding = 1 + 1e-6f;
  const float headroom = std::max(1.0f, static_cast<float>(result.factors[row])) * kRounding;
  const int64_t size = tile.value_head_dim();
  return AllFinite(result.context + row * size, size, headroom);
}

void AddContext(const Tile& tile, const KeyChunk& chunk, const float* weights, const double* factors, bool is_first,
                float* context) {
  Worker& worker = tile.worker;
  const int64_t size = tile.value_head_dim();
  const MatmulShape shape{.m = tile.height(),
                          .k = chunk.columns,
                          .n = size,
                          .operands = tile.operands(),
                          .weights = WeightsLayout::kPlain,
                          .accumulate = !is_first};
  const void* operand =
      factors == nullptr
          ? worker.onednn.Operand(shape.operands, shape.m * shape.k, weights, worker.operand)
          : worker.onednn.ScaledOperand(shape.operands, shape.m, shape.k, factors, weights, worker.operand);
  worker.onednn.Matmul(shape, operand, chunk.values, nullptr, context);
  worker.head.AddNonFinite(chunk, tile.rows, weights, factors, context);
}

}  // namespace attention::server
