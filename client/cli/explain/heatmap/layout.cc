#include "client/cli/explain/heatmap/layout.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "client/cli/text_format.h"
#include "server/checkpoint/field_error.h"

namespace attention::cli {
namespace {

// Sizes that fit on a large screen, and that viewers can open.
constexpr int64_t kScreenWidth = 2880, kScreenHeight = 2160;
constexpr int64_t kMaxSide = 8192, kMaxPixels = int64_t{32} << 20;

constexpr int64_t kMargin = 16;       // around the picture
constexpr int64_t kGap = 20;          // between panels
constexpr int64_t kTick = 5;          // from a panel's edge to the labels of its axis
constexpr int64_t kLineHeight = 18;   // of the header
constexpr int64_t kMaxCellSide = 36;  // room for "0.25"
constexpr int64_t kMinPanelSide = 24;
constexpr int64_t kMinCells = 16;  // along the longer side of a panel; with fewer there is nothing to see
constexpr size_t kMaxTitleLength = 240;
constexpr int64_t kLegendWidth = 124, kLegendHeight = 270;

int64_t DivideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t TextWidth(const std::string& text) { return kTextWidth * static_cast<int64_t>(text.size()); }

// Width of the longest label of an axis.
int64_t LabelWidth(int64_t length) { return TextWidth(absl::StrCat(length - 1)); }

std::vector<std::string> Header(const HeatmapLayout& layout, const std::string& title) {
  const HeatmapSizes& sizes = layout.sizes;
  std::vector<std::string> lines = {title.substr(0, kMaxTitleLength),
                                    absl::StrCat("batch ", sizes.batch, ", num_heads ", sizes.num_heads, ", q_length ",
                                                 sizes.q_length, ", kv_length ", sizes.kv_length)};
  if (layout.q_per_cell * layout.kv_per_cell > 1) {
    lines.push_back(absl::StrCat("a cell is the mean of ", layout.q_per_cell,
                                 layout.q_per_cell == 1 ? " query" : " queries", " x ", layout.kv_per_cell,
                                 layout.kv_per_cell == 1 ? " key" : " keys"));
  }
  return lines;
}

// The slot of the first panel. Left of the cells: "query", written upwards, and the axis. Above them: the panel's name.
// Below them: the axis and "key".
void SetSlot(HeatmapLayout& layout) {
  layout.axis_width = kTextHeight + kTextWidth / 2 + LabelWidth(layout.sizes.q_length) + kTick;
  const int64_t widest =
      std::max(layout.columns() * layout.cell_width, TextWidth(layout.PanelName(layout.panels() - 1)));
  layout.slot.left = kMargin;
  layout.slot.top = kMargin + kLineHeight * static_cast<int64_t>(layout.header.size()) + kMargin;
  layout.slot.width = layout.axis_width + widest + kGap;
  layout.slot.height = kTextHeight + kTick + layout.rows() * layout.cell_height + kTick + 2 * kTextHeight + kGap;
}

// Chooses the grid whose shape is closest to a screen's. Grids in which a row holds whole sequences, or a sequence
// fills whole rows, are preferred even if they leave some space blank.
void SetPanelsAcross(HeatmapLayout& layout) {
  const int64_t heads = layout.sizes.num_heads;
  const int64_t most = std::clamp<int64_t>(kMaxSide / layout.slot.width, 1, layout.panels());
  double best = std::numeric_limits<double>::infinity();
  for (int64_t across = 1; across <= most; ++across) {
    const auto width = static_cast<double>(across * layout.slot.width);
    const auto height = static_cast<double>(DivideUp(layout.panels(), across) * layout.slot.height);
    const bool is_even = heads % across == 0 || across % heads == 0;
    const double cost = std::max(width / kScreenWidth, height / kScreenHeight) * (is_even ? 1 : 1.5);
    if (cost >= best) continue;
    best = cost;
    layout.panels_across = across;
  }
}

void SetSize(HeatmapLayout& layout) {
  const PixelBox& slot = layout.slot;
  const int64_t grid_height = DivideUp(layout.panels(), layout.panels_across) * slot.height;
  layout.width = slot.left + layout.panels_across * slot.width + kLegendWidth + kMargin;
  layout.height = slot.top + std::max(grid_height, kLegendHeight);
  for (const std::string& line : layout.header) {
    const int64_t text = &line == &layout.header.front() ? TextWidth(line) * kTitleWidth / kTextWidth : TextWidth(line);
    layout.width = std::max(layout.width, kMargin + text + kMargin);
  }
}

// Sets everything for square cells, which are stretched if there are few. The sizes and the weights per cell are set.
void Arrange(HeatmapLayout& layout, const std::string& title, int64_t cell_side) {
  layout.cell_width = std::max(cell_side, DivideUp(kMinPanelSide, layout.columns()));
  layout.cell_height = std::max(cell_side, DivideUp(kMinPanelSide, layout.rows()));
  layout.header = Header(layout, title);
  SetSlot(layout);
  SetPanelsAcross(layout);
  SetSize(layout);
}

bool FitsOnScreen(const HeatmapLayout& layout) {
  return layout.width <= kScreenWidth && layout.height <= kScreenHeight;
}

bool FitsIntoPicture(const HeatmapLayout& layout) {
  return layout.width <= kMaxSide && layout.height <= kMaxSide && layout.width * layout.height <= kMaxPixels;
}

// Tries layouts from the largest cells to the most weights per cell, and keeps the first that fits. False if none does.
bool FindLayout(HeatmapLayout& layout, const std::string& title) {
  for (int64_t side = kMaxCellSide; side >= 1; --side) {
    Arrange(layout, title, side);
    if (FitsOnScreen(layout)) return true;
  }
  const int64_t length = std::max(layout.sizes.q_length, layout.sizes.kv_length);
  int64_t cells = std::min(length, kMaxSide);
  for (; cells >= std::min(length, kMinCells); cells -= DivideUp(cells, 8)) {
    layout.q_per_cell = DivideUp(layout.sizes.q_length, cells);
    layout.kv_per_cell = DivideUp(layout.sizes.kv_length, cells);
    Arrange(layout, title, 1);
    if (FitsIntoPicture(layout)) return true;
  }
  return false;
}

// `label` is the size of a label in pixels, `per_cell` the number of indices per cell.
int64_t Stride(int64_t label, int64_t per_cell, int64_t cell_side) {
  const int64_t least = DivideUp(label * per_cell, cell_side);
  for (int64_t power = 1;; power *= 10) {
    for (const int64_t factor : {1, 2, 5}) {
      if (factor * power >= least) return factor * power;
    }
  }
}

}  // namespace

absl::StatusOr<HeatmapLayout> HeatmapLayout::Create(const HeatmapSizes& sizes, const std::string& title) {
  const std::string shape = FormatShape({sizes.batch, sizes.num_heads, sizes.q_length, sizes.kv_length});
  if (std::min({sizes.batch, sizes.num_heads, sizes.q_length, sizes.kv_length}) < 1) {
    return server::FieldError("attn_weights", "positive sizes", shape);
  }
  HeatmapLayout layout;
  layout.sizes = sizes;
  // These bounds are far above what can be drawn, and keep every product from overflowing.
  const bool is_countable = sizes.batch <= kMaxPixels / sizes.num_heads &&
                            std::max(sizes.q_length, sizes.kv_length) <= std::numeric_limits<int32_t>::max();
  if (is_countable && FindLayout(layout, title)) return layout;
  const std::string picture = absl::StrCat("a picture of ", kMaxSide, " x ", kMaxSide, " and ", kMaxPixels, " pixels");
  return server::FieldError("attn_weights", absl::StrCat("a shape that fits into ", picture), shape);
}

std::string HeatmapLayout::PanelName(int64_t panel) const {
  if (sizes.batch == 1) return absl::StrCat("head ", panel);
  return absl::StrCat("sequence ", panel / sizes.num_heads, ", head ", panel % sizes.num_heads);
}

PixelBox HeatmapLayout::PanelBox(int64_t panel) const {
  return {slot.left + panel % panels_across * slot.width + axis_width,
          slot.top + panel / panels_across * slot.height + kTextHeight + kTick, columns() * cell_width,
          rows() * cell_height};
}

PixelBox HeatmapLayout::CellBox(int64_t panel, int64_t row, int64_t column) const {
  const PixelBox box = PanelBox(panel);
  return {box.left + column * cell_width, box.top + row * cell_height, cell_width, cell_height};
}

PixelBox HeatmapLayout::HeaderBox(size_t line) const {
  return {kMargin, kMargin + kLineHeight * static_cast<int64_t>(line), width - 2 * kMargin, kLineHeight};
}

PixelBox HeatmapLayout::LegendBox() const {
  return {slot.left + panels_across * slot.width, slot.top, kLegendWidth, kLegendHeight};
}

int64_t HeatmapLayout::QueryStride() const { return Stride(2 * kTextHeight, q_per_cell, cell_height); }

int64_t HeatmapLayout::KeyStride() const {
  return Stride(LabelWidth(sizes.kv_length) + 2 * kTextWidth, kv_per_cell, cell_width);
}

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
