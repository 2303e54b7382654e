#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace attention::cli {

// The shape of attn_weights, [batch, num_heads, q_length, kv_length]. All batch axes together count as one.
struct HeatmapSizes {
  int64_t batch = 0;
  int64_t num_heads = 0;
  int64_t q_length = 0;
  int64_t kv_length = 0;
};

// A rectangle in pixels, from the upper left corner of the picture.
struct PixelBox {
  int64_t left = 0;
  int64_t top = 0;
  int64_t width = 0;
  int64_t height = 0;
};

// Size of a character of the title, and of all other text.
inline constexpr int64_t kTitleWidth = 8, kTitleHeight = 16;
inline constexpr int64_t kTextWidth = 6, kTextHeight = 13;

// Positions in the picture of attention weights: a header of text, a grid of panels, and the legend on its right. A
// panel is one head of one sequence, and has the number sequence × num_heads + head.
//
// Cells are squares, as large as possible with the whole picture on a screen. If even cells of one pixel do not fit
// into 8192 × 8192 and 32 Mi pixels, several neighbouring weights share a cell, and the header says so. The cells of a
// panel with few rows or columns are stretched, so that one query with many keys is more than a line.
struct HeatmapLayout {
  // INVALID_ARGUMENT if a size is not positive, or if there are too many panels for one picture.
  static absl::StatusOr<HeatmapLayout> Create(const HeatmapSizes& sizes, const std::string& title);

  HeatmapSizes sizes;
  int64_t width = 0;
  int64_t height = 0;
  std::vector<std::string> header;  // lines of text, of which the first is the title
  PixelBox slot;                    // of the first panel in the grid: its name, axes and cells, and the gap to the next
  int64_t axis_width = 0;           // from the left of a slot to the cells
  int64_t panels_across = 1;
  int64_t cell_width = 1;
  int64_t cell_height = 1;
  int64_t q_per_cell = 1;  // queries that share a cell
  int64_t kv_per_cell = 1;

  int64_t panels() const { return sizes.batch * sizes.num_heads; }

  // Cells of one panel.
  int64_t rows() const { return (sizes.q_length + q_per_cell - 1) / q_per_cell; }
  int64_t columns() const { return (sizes.kv_length + kv_per_cell - 1) / kv_per_cell; }

  // "head 0", or "sequence 1, head 0" if there are several sequences.
  std::string PanelName(int64_t panel) const;

  // The boxes of all cells of a panel, of one cell, of a line of the header, and of the legend.
  PixelBox PanelBox(int64_t panel) const;
  PixelBox CellBox(int64_t panel, int64_t row, int64_t column) const;
  PixelBox HeaderBox(size_t line) const;
  PixelBox LegendBox() const;

  // Number of queries or keys between two labels of an axis: 1, 2 or 5 times a power of ten.
  int64_t QueryStride() const;
  int64_t KeyStride() const;
};

// The values of the cells of a layout. Both arguments must outlive it.
//
// REQUIRES: the number of weights matches the layout's sizes.
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
