#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/cli/explain/heatmap/layout.h"

namespace attention::cli {

struct HeatmapInput {
  HeatmapSizes sizes;
  absl::Span<const double> attn_weights;  // [batch, num_heads, q_length, kv_length], row-major; not owned
  std::string title;                      // "demo/ones, version 1"; other characters than ASCII become '?'
};

// Draws attention weights as a PNG and returns its bytes: one panel per head and sequence, with a row per query and a
// column per key. HeatmapLayout defines the positions.
//
// All panels share one colour scale, from 0 to the largest weight drawn, proportional to the square root. Exactly 0 has
// its own colour, since a hidden key has that weight. So has NaN, which also stands for infinity. A cell of several
// weights shows their mean; NaN if one of them is NaN or infinite; exactly 0 only if all are.
//
// INVALID_ARGUMENT if the number of weights does not match the sizes, or as HeatmapLayout::Create; RESOURCE_EXHAUSTED
// if there is not enough memory for the picture, which has at most 32 Mi pixels of one byte.
absl::StatusOr<std::string> DrawHeatmap(const HeatmapInput& input);

// Draws into a file, and replaces an existing one. INVALID_ARGUMENT unless its name ends in ".png"; NOT_FOUND,
// PERMISSION_DENIED, … if it cannot be written.
absl::Status WriteHeatmap(const std::string& file, const HeatmapInput& input);

}  // namespace attention::cli
