#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/cli/explain/heatmap/layout.h"

namespace attention::cli {

struct HeatmapInput {
  HeatmapSizes sizes;
  absl::Span<const double> attn_weights;  // [batch, num_heads, q_length, kv_length], row-major; must stay meanwhile
  std::string title;                      // "demo/ones, version 1"; letters beyond ASCII become '?'
};

// Draws attention weights as a PNG and returns its bytes: a panel a head and sequence, down the queries, across the
// keys. HeatmapLayout says what lies where.
//
// All panels share one colour scale, from 0 to the greatest weight drawn, by its square root. Exactly 0 has its own
// colour, since a hidden key has that weight. So has NaN, which stands for infinite numbers too. Where several weights
// share a cell, it shows their mean; NaN if one of them is; exactly 0 only if all are.
//
// INVALID_ARGUMENT if attn_weights has not the number of weights that the sizes say, and as HeatmapLayout::Create;
// RESOURCE_EXHAUSTED if there is no memory for the picture, which has at most 32 Mi pixels of one byte.
absl::StatusOr<std::string> DrawHeatmap(const HeatmapInput& input);

// The same into a file, over what was there. INVALID_ARGUMENT unless its name ends in ".png"; NOT_FOUND,
// PERMISSION_DENIED, … if it cannot be written.
absl::Status WriteHeatmap(const std::string& file, const HeatmapInput& input);

}  // namespace attention::cli
