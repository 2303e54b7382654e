#include "client/cli/heatmap_cells.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace attention::cli {

double HeatmapCells::At(int64_t panel, int64_t row, int64_t column) const {
  const HeatmapSizes& sizes = layout_.sizes;
  const int64_t first_q = row * layout_.q_per_cell, first_kv = column * layout_.kv_per_cell;
  const int64_t end_q = std::min(first_q + layout_.q_per_cell, sizes.q_length);
  const int64_t end_kv = std::min(first_kv + layout_.kv_per_cell, sizes.kv_length);
  double sum = 0;
  for (int64_t q = first_q; q < end_q; ++q) {
    const int64_t offset = (panel * sizes.q_length + q) * sizes.kv_length;
    for (int64_t kv = first_kv; kv < end_kv; ++kv) sum += attn_weights_[offset + kv];
  }
  if (!std::isfinite(sum)) return std::numeric_limits<double>::quiet_NaN();
  return sum / static_cast<double>((end_q - first_q) * (end_kv - first_kv));
}

HeatmapCells::Summary HeatmapCells::Summarize() const {
  Summary summary;
  ForEach([&](int64_t panel, int64_t row, int64_t column) {
    const double value = At(panel, row, column);
    summary.has_nan |= std::isnan(value);
    summary.has_zero |= value == 0;
    if (value > summary.max) summary.max = value;
  });
  return summary;
}

}  // namespace attention::cli
