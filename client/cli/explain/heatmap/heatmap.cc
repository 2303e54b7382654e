#include "client/cli/explain/heatmap/heatmap.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/explain/heatmap/canvas.h"
#include "client/cli/explain/heatmap/layout.h"
#include "client/tensor.h"
#include "server/checkpoint/field_error.h"
#include "server/checkpoint/file.h"

namespace attention::cli {
namespace {

constexpr int64_t kShades = 240;        // of HeatColor; a palette has room for 256 colours
constexpr int64_t kTickLength = 3;      // of the axes
constexpr int64_t kNameGap = 3;         // between a panel's name and its cells
constexpr int64_t kSeparatedSide = 16;  // smallest side of cells that have a line between them
constexpr int64_t kNumberWidth = 4 * kTextWidth;
constexpr int64_t kBarWidth = 16, kBarHeight = 160;  // of the colour bar
constexpr int64_t kBarParts = 4;                     // separated by labels
constexpr int64_t kLegendGap = 8;

constexpr Rgb kWhite = {255, 255, 255}, kBlack = {0, 0, 0}, kGrey = {110, 110, 110};

// At most four characters.
std::string CellText(double value) {
  if (std::isnan(value)) return "NaN";
  if (value == 0) return "0";
  if (value < 0.005) return "<.01";
  return absl::StrFormat("%.2f", value);
}

class Painter {
 public:
  Painter(Canvas canvas, const HeatmapLayout& layout, const HeatmapCells& cells)
      : canvas_(std::move(canvas)), layout_(layout), cells_(cells), summary_(cells.Summarize()) {
    white_ = canvas_.AddColor(kWhite);
    black_ = canvas_.AddColor(kBlack);
    grey_ = canvas_.AddColor(kGrey);
    zero_ = canvas_.AddColor(kZeroColor);
    nan_ = canvas_.AddColor(kNanColor);
    for (size_t shade = 0; shade < shades_.size(); ++shade) shades_[shade] = canvas_.AddColor(RgbOf(shade));
  }

  absl::StatusOr<std::string> Paint() {
    Header();
    cells_.ForEach([this](int64_t panel, int64_t row, int64_t column) { Cell(panel, row, column); });
    for (int64_t panel = 0; panel < layout_.panels(); ++panel) AroundPanel(panel);
    Legend();
    return canvas_.Png();
  }

 private:
  static Rgb RgbOf(size_t shade) { return HeatColor(static_cast<double>(shade) / (kShades - 1)); }

  // The square root keeps small weights apart: with many keys most weights are small, but under a causal mask the first
  // query has one weight of 1. REQUIRES: value is not NaN.
  size_t ShadeOf(double value) const {
    const double fraction = summary_.max > 0 ? std::clamp(value / summary_.max, 0.0, 1.0) : 0;
    return static_cast<size_t>(std::lround(std::sqrt(fraction) * (kShades - 1)));
  }

  void Header() {
    const PixelBox title = layout_.HeaderBox(0);
    canvas_.Title(title.left, title.top, layout_.header[0], black_);
    for (size_t line = 1; line < layout_.header.size(); ++line) {
      const PixelBox box = layout_.HeaderBox(line);
      canvas_.Text(box.left, box.top, layout_.header[line], grey_);
    }
  }

  void Cell(int64_t panel, int64_t row, int64_t column) {
    PixelBox box = layout_.CellBox(panel, row, column);
    const double value = cells_.At(panel, row, column);
    const auto [color, ink] = ColorsOf(value);
    if (std::min(box.width, box.height) >= kSeparatedSide) {
      --box.width;
      --box.height;
    }
    canvas_.Fill(box, color);
    if (box.width > kNumberWidth && box.height > kTextHeight) {
      TextAround(box.left + box.width / 2, box.top + (box.height - kTextHeight) / 2, CellText(value), ink);
    }
  }

  // The colours of a cell and of the number in it.
  std::pair<Canvas::Color, Canvas::Color> ColorsOf(double value) const {
    if (std::isnan(value)) return {nan_, white_};
    if (value == 0) return {zero_, grey_};
    const size_t shade = ShadeOf(value);
    return {shades_[shade], IsLight(RgbOf(shade)) ? black_ : white_};
  }

  void AroundPanel(int64_t panel) {
    const PixelBox box = layout_.PanelBox(panel);
    canvas_.Text(box.left, box.top - kTextHeight - kNameGap, layout_.PanelName(panel), black_);
    canvas_.Frame({box.left - 1, box.top - 1, box.width + 2, box.height + 2}, grey_);
    KeyAxis(box);
    QueryAxis(box);
  }

  void KeyAxis(const PixelBox& box) {
    const int64_t bottom = box.top + box.height;
    for (int64_t key = 0; key < layout_.sizes.kv_length; key += layout_.KeyStride()) {
      const int64_t x = box.left + key / layout_.kv_per_cell * layout_.cell_width + layout_.cell_width / 2;
      canvas_.Fill({x, bottom, 1, kTickLength}, grey_);
      TextAround(x, bottom + kTickLength + 1, absl::StrCat(key), grey_);
    }
    TextAround(box.left + box.width / 2, bottom + kTickLength + 1 + kTextHeight, "key", black_);
  }

  void QueryAxis(const PixelBox& box) {
    for (int64_t query = 0; query < layout_.sizes.q_length; query += layout_.QueryStride()) {
      const int64_t y = box.top + query / layout_.q_per_cell * layout_.cell_height + layout_.cell_height / 2;
      const std::string label = absl::StrCat(query);
      const int64_t width = kTextWidth * static_cast<int64_t>(label.size());
      canvas_.Fill({box.left - kTickLength, y, kTickLength, 1}, grey_);
      canvas_.Text(box.left - kTickLength - 1 - width, y - kTextHeight / 2, label, grey_);
    }
    const int64_t half = kTextWidth * 5 / 2;  // of "query"
    canvas_.TextUp(box.left - layout_.axis_width, box.top + box.height / 2 + half, "query", black_);
  }

  void Legend() {
    const PixelBox box = layout_.LegendBox();
    canvas_.Text(box.left, box.top, "attn_weights", black_);
    canvas_.Text(box.left, box.top + kTextHeight, "square-root scale", grey_);
    const PixelBox bar = {box.left, box.top + 2 * kTextHeight + kLegendGap, kBarWidth, kBarHeight};
    ColorBar(bar);
    int64_t top = bar.top + bar.height + 2 * kLegendGap;
    if (summary_.has_zero) top = LegendEntry(box.left, top, zero_, "0 (e.g. hidden)");
    if (summary_.has_nan) LegendEntry(box.left, top, nan_, "NaN");
  }

  void ColorBar(const PixelBox& bar) {
    const int64_t last = bar.height - 1;
    for (int64_t line = 0; line <= last; ++line) {
      const auto shade = static_cast<size_t>((last - line) * (kShades - 1) / last);
      canvas_.Fill({bar.left, bar.top + line, bar.width, 1}, shades_[shade]);
    }
    for (int64_t part = 0; part <= kBarParts; ++part) {
      const int64_t y = bar.top + last * (kBarParts - part) / kBarParts;
      const double root = static_cast<double>(part) / kBarParts;
      canvas_.Fill({bar.left + bar.width, y, kTickLength, 1}, grey_);
      canvas_.Text(bar.left + bar.width + kTickLength + 2, y - kTextHeight / 2,
                   absl::StrFormat("%.3g", summary_.max * root * root), grey_);
    }
  }

  // Returns the top of the next entry.
  int64_t LegendEntry(int64_t left, int64_t top, Canvas::Color color, const std::string& text) {
    canvas_.Fill({left, top, kBarWidth, kBarWidth}, color);
    canvas_.Text(left + kBarWidth + kTickLength + 2, top + (kBarWidth - kTextHeight) / 2, text, grey_);
    return top + kBarWidth + kLegendGap;
  }

  void TextAround(int64_t middle, int64_t top, const std::string& text, Canvas::Color color) {
    canvas_.Text(middle - kTextWidth * static_cast<int64_t>(text.size()) / 2, top, text, color);
  }

  Canvas canvas_;
  const HeatmapLayout& layout_;
  const HeatmapCells& cells_;
  const HeatmapCells::Summary summary_;
  Canvas::Color white_, black_, grey_, zero_, nan_;
  std::array<Canvas::Color, kShades> shades_;
};

}  // namespace

absl::StatusOr<std::string> DrawHeatmap(const HeatmapInput& input) {
  const absl::StatusOr<HeatmapLayout> layout = HeatmapLayout::Create(input.sizes, input.title);
  if (!layout.ok()) return layout.status();
  const HeatmapSizes& sizes = input.sizes;
  const absl::StatusOr<int64_t> bytes =
      ByteSize(DataType::kFloat64, {sizes.batch, sizes.num_heads, sizes.q_length, sizes.kv_length});
  if (!bytes.ok()) return absl::InvalidArgumentError(absl::StrCat("attn_weights: ", bytes.status().message()));
  if (*bytes != static_cast<int64_t>(input.attn_weights.size() * sizeof(double))) {
    return server::FieldError("attn_weights", absl::StrCat(*bytes / sizeof(double), " numbers"),
                              input.attn_weights.size());
  }
  absl::StatusOr<Canvas> canvas = Canvas::Create(layout->width, layout->height);
  if (!canvas.ok()) return canvas.status();
  const HeatmapCells cells(input.attn_weights, *layout);
  return Painter(*std::move(canvas), *layout, cells).Paint();
}

absl::Status WriteHeatmap(const std::string& file, const HeatmapInput& input) {
  if (!absl::EndsWith(file, ".png")) return server::FieldError("--heatmap", "FILE.png", file);
  const absl::StatusOr<std::string> bytes = DrawHeatmap(input);
  if (!bytes.ok()) return bytes.status();
  return server::WriteFile(file, file, {reinterpret_cast<const std::byte*>(bytes->data()), bytes->size()});
}

}  // namespace attention::cli
