#include "client/cli/explain/heatmap/layout.h"

#include <gmock/gmock.h>

#include "client/cli/explain/heatmap/canvas.h"

namespace attention::cli {
namespace {

struct LayoutCase {
  const char* name;
  HeatmapSizes sizes;
  int64_t cell_width, cell_height;
  int64_t q_per_cell, kv_per_cell;
  int64_t panels_across;
  int64_t query_stride, key_stride;
};

class HeatmapLayoutTest : public ::testing::TestWithParam<LayoutCase> {};

TEST_P(HeatmapLayoutTest, MakesCellsAsLargeAsThePictureAllows) {
  const LayoutCase& expected = GetParam();
  const HeatmapLayout layout = HeatmapLayout::Create(expected.sizes, "demo/ones").value();
  EXPECT_EQ(layout.cell_width, expected.cell_width);
  EXPECT_EQ(layout.cell_height, expected.cell_height);
  EXPECT_EQ(layout.q_per_cell, expected.q_per_cell);
  EXPECT_EQ(layout.kv_per_cell, expected.kv_per_cell);
  EXPECT_EQ(layout.panels_across, expected.panels_across);
  EXPECT_EQ(layout.QueryStride(), expected.query_stride);
  EXPECT_EQ(layout.KeyStride(), expected.key_stride);
}

TEST_P(HeatmapLayoutTest, BoxesDoNotOverlap) {
  const HeatmapLayout layout = HeatmapLayout::Create(GetParam().sizes, "demo/ones").value();
  const PixelBox first = layout.PanelBox(0), last = layout.PanelBox(layout.panels() - 1);
  const PixelBox legend = layout.LegendBox(), header = layout.HeaderBox(layout.header.size() - 1);
  EXPECT_LE(layout.width, 8192);
  EXPECT_LE(layout.height, 8192);
  EXPECT_LE(layout.width * layout.height, 32 << 20);
  EXPECT_LE(header.top + header.height, first.top - kTextHeight);
  EXPECT_LE(header.top + header.height, legend.top);
  EXPECT_LE(last.left + last.width, legend.left);
  EXPECT_LE(last.top + last.height + 2 * kTextHeight, layout.height);
  EXPECT_LE(legend.left + legend.width, layout.width);
  EXPECT_LE(legend.top + legend.height, layout.height);
  if (layout.panels_across > 1) {
    EXPECT_LE(first.left + first.width, layout.PanelBox(1).left - layout.axis_width);
  }
  if (layout.panels() > layout.panels_across) {
    EXPECT_LE(first.top + first.height + 2 * kTextHeight, layout.PanelBox(layout.panels_across).top - kTextHeight);
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, HeatmapLayoutTest,
                         ::testing::Values(LayoutCase{"OneWeight", {1, 1, 1, 1}, 36, 36, 1, 1, 1, 1, 1},
                                           LayoutCase{"Small", {1, 2, 2, 2}, 36, 36, 1, 1, 2, 1, 1},
                                           LayoutCase{"FourHeads", {1, 4, 16, 16}, 36, 36, 1, 1, 2, 1, 1},
                                           LayoutCase{"ASequenceARow", {8, 8, 16, 16}, 12, 12, 1, 1, 8, 5, 2},
                                           LayoutCase{"TwelveHeads", {1, 12, 200, 300}, 2, 2, 1, 1, 3, 20, 20},
                                           LayoutCase{"OneQuery", {1, 2, 1, 300}, 8, 24, 1, 1, 1, 2, 5},
                                           LayoutCase{"APixelACell", {1, 1, 4000, 4000}, 1, 1, 1, 1, 1, 50, 50},
                                           LayoutCase{
                                               "SeveralWeightsACell", {1, 12, 4096, 4096}, 1, 1, 3, 3, 4, 100, 200},
                                           LayoutCase{"AMillionKeys", {1, 1, 1, 1000000}, 1, 24, 1, 140, 1, 2, 10000}),
                         [](const auto& info) { return info.param.name; });

TEST(HeatmapLayoutTest, NamesTheSequenceIfThereAreSeveral) {
  EXPECT_EQ(HeatmapLayout::Create({1, 3, 2, 2}, "").value().PanelName(2), "head 2");
  EXPECT_EQ(HeatmapLayout::Create({2, 3, 2, 2}, "").value().PanelName(2), "sequence 0, head 2");
  EXPECT_EQ(HeatmapLayout::Create({2, 3, 2, 2}, "").value().PanelName(4), "sequence 1, head 1");
}

TEST(HeatmapLayoutTest, LimitsTheLengthOfTheTitle) {
  EXPECT_EQ(HeatmapLayout::Create({1, 1, 1, 1}, std::string(100, 'x')).value().width, 16 + 100 * 8 + 16);
  EXPECT_EQ(HeatmapLayout::Create({1, 1, 1, 1}, std::string(5000, 'x')).value().width, 16 + 240 * 8 + 16);
}

TEST(HeatmapColorsTest, LightnessRisesFromEndToEnd) {
  constexpr Rgb kViolet = {64, 1, 76}, kYellow = {246, 234, 78};
  EXPECT_EQ(HeatColor(0), kViolet);
  EXPECT_EQ(HeatColor(1), kYellow);
  EXPECT_FALSE(IsLight(kViolet));
  EXPECT_TRUE(IsLight(kYellow));
  const auto luma = [](const Rgb& rgb) { return 299 * rgb.red + 587 * rgb.green + 114 * rgb.blue; };
  for (int step = 1; step <= 100; ++step) {
    EXPECT_GT(luma(HeatColor(step / 100.0)), luma(HeatColor((step - 1) / 100.0))) << step;
  }
}

}  // namespace
}  // namespace attention::cli
