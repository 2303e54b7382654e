#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "client/cli/heatmap_layout.h"

namespace attention::cli {

// What the cells of a layout show of attention weights, both of which must stay as long as it. A panel is counted from
// 0 through all heads of all sequences.
//
// REQUIRES: there are as many weights as the layout's sizes say.
class HeatmapCells {
 public:
  HeatmapCells(absl::Span<const double> attn_weights, const HeatmapLayout& layout)
      : attn_weights_(attn_weights), layout_(layout) {}

  // The mean of the weights that share the cell; NaN if one of them is not finite.
  double At(int64_t panel, int64_t row, int64_t column) const;

  struct Summary {
    double max = 0;
    bool has_zero = false;
    bool has_nan = false;
  };
  Summary Summarize() const;

  // Calls visit(panel, row, column) for every cell.
  template <typename Visit>
  void ForEach(const Visit& visit) const {
    for (int64_t panel = 0; panel < layout_.panels(); ++panel) {
      for (int64_t row = 0; row < layout_.rows(); ++row) {
        for (int64_t column = 0; column < layout_.columns(); ++column) visit(panel, row, column);
      }
    }
  }

 private:
  const absl::Span<const double> attn_weights_;
  const HeatmapLayout& layout_;
};

}  // namespace attention::cli
