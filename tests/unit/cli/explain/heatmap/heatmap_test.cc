#include "client/cli/explain/heatmap/heatmap.h"

#include <gd.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <memory>
#include <ostream>

#include "client/cli/explain/heatmap/canvas.h"
#include "server/checkpoint/file.h"
#include "tests/testing/matchers.h"

namespace attention::cli {

void PrintTo(const Rgb& rgb, std::ostream* out) {
  *out << int{rgb.red} << ' ' << int{rgb.green} << ' ' << int{rgb.blue};
}

namespace {

using absl::StatusCode;
using test::IsOk;
using test::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr Rgb kYellow = {246, 234, 78}, kViolet = {64, 1, 76}, kTeal = {12, 143, 162};
constexpr Rgb kLightGrey = {222, 222, 222}, kRed = {226, 40, 60}, kWhite = {255, 255, 255};

// A picture of weights, decoded.
class Picture {
 public:
  Picture(const HeatmapSizes& sizes, const std::vector<double>& weights, const std::string& title = "demo/ones")
      : layout_(HeatmapLayout::Create(sizes, title).value()) {
    std::string png = DrawHeatmap({sizes, weights, title}).value();
    image_.reset(gdImageCreateFromPngPtr(static_cast<int>(png.size()), png.data()));
  }

  const HeatmapLayout& layout() const { return layout_; }
  bool is_decoded() const { return image_ != nullptr; }
  int width() const { return gdImageSX(image_.get()); }
  int height() const { return gdImageSY(image_.get()); }

  Rgb At(int64_t x, int64_t y) const {
    const int color = gdImageGetTrueColorPixel(image_.get(), static_cast<int>(x), static_cast<int>(y));
    return {static_cast<uint8_t>(gdTrueColorGetRed(color)), static_cast<uint8_t>(gdTrueColorGetGreen(color)),
            static_cast<uint8_t>(gdTrueColorGetBlue(color))};
  }

  // The corner of a cell, which a number in the cell does not reach.
  Rgb Corner(int64_t panel, int64_t row, int64_t column) const {
    const PixelBox cell = layout_.CellBox(panel, row, column);
    return At(cell.left, cell.top);
  }

  int64_t Count(const PixelBox& box, const Rgb& rgb) const {
    int64_t count = 0;
    for (int64_t y = box.top; y < std::min<int64_t>(box.top + box.height, height()); ++y) {
      for (int64_t x = box.left; x < std::min<int64_t>(box.left + box.width, width()); ++x) count += At(x, y) == rgb;
    }
    return count;
  }

 private:
  struct Destroy {
    void operator()(gdImage* image) const { gdImageDestroy(image); }
  };

  HeatmapLayout layout_;
  std::unique_ptr<gdImage, Destroy> image_;
};

TEST(HeatmapTest, ThePictureHasTheSizeOfItsLayout) {
  const Picture picture({1, 2, 2, 2}, {1, 0, 0.5, 0.5, 0.25, 0.75, 1, 0});
  ASSERT_TRUE(picture.is_decoded());
  EXPECT_EQ(picture.width(), picture.layout().width);
  EXPECT_EQ(picture.height(), picture.layout().height);
  EXPECT_EQ(picture.At(0, 0), kWhite);
}

TEST(HeatmapTest, ACellHasTheColourOfItsWeight) {
  const Picture picture({1, 1, 2, 3}, {1, 0, 0.25, kNan, 1e-9, kInf});
  EXPECT_EQ(picture.Corner(0, 0, 0), kYellow);
  EXPECT_EQ(picture.Corner(0, 0, 1), kLightGrey);
  EXPECT_EQ(picture.Corner(0, 0, 2), kTeal);
  EXPECT_EQ(picture.Corner(0, 1, 0), kRed);
  EXPECT_EQ(picture.Corner(0, 1, 1), kViolet);
  EXPECT_EQ(picture.Corner(0, 1, 2), kRed);
}

TEST(HeatmapTest, TheLargestWeightOfAllPanelsHasTheLastColour) {
  const Picture picture({1, 2, 1, 2}, {0.2, 0.05, 0.8, 0.2});
  EXPECT_EQ(picture.Corner(1, 0, 0), kYellow);
  EXPECT_EQ(picture.Corner(0, 0, 0), kTeal);
  EXPECT_EQ(picture.Corner(1, 0, 1), kTeal);
}

TEST(HeatmapTest, PanelsAreOrderedBySequenceThenHead) {
  // The key with weight 1 is one further in each panel.
  std::vector<double> weights(2 * 3 * 6, 0.0);
  for (size_t panel = 0; panel < 6; ++panel) weights[panel * 6 + panel] = 1;
  const Picture picture({2, 3, 1, 6}, weights);
  for (int64_t panel = 0; panel < 6; ++panel) {
    for (int64_t key = 0; key < 6; ++key) {
      EXPECT_EQ(picture.Corner(panel, 0, key), key == panel ? kYellow : kLightGrey) << panel << ' ' << key;
    }
  }
}

TEST(HeatmapTest, DrawsEveryPixelOfACausalMask) {
  constexpr int64_t kLength = 300;
  std::vector<double> weights(kLength * kLength, 0.0);
  for (int64_t q = 0; q < kLength; ++q) {
    for (int64_t kv = 0; kv <= q; ++kv) weights[q * kLength + kv] = 1.0 / static_cast<double>(q + 1);
  }
  const Picture picture({1, 1, kLength, kLength}, weights);
  EXPECT_EQ(picture.Corner(0, 0, 0), kYellow);
  EXPECT_EQ(picture.Corner(0, 3, 0), kTeal);
  EXPECT_EQ(picture.Corner(0, 3, 3), kTeal);
  EXPECT_EQ(picture.Corner(0, 3, 4), kLightGrey);
  const int64_t cell = picture.layout().cell_width * picture.layout().cell_height;
  EXPECT_EQ(picture.Count(picture.layout().PanelBox(0), kLightGrey), kLength * (kLength - 1) / 2 * cell);
}

TEST(HeatmapTest, OnlyLargeCellsShowTheirNumber) {
  const Picture few({1, 1, 1, 2}, {1, 1});
  const PixelBox large = few.layout().CellBox(0, 0, 0);
  EXPECT_EQ(few.Count(large, kYellow) + few.Count(large, {0, 0, 0}) + few.Count(large, kWhite),
            large.width * large.height);
  EXPECT_GT(few.Count(large, {0, 0, 0}), 20);

  const Picture many({1, 1, 100, 100}, std::vector<double>(100 * 100, 1));
  EXPECT_EQ(many.layout().cell_width, 20);
  EXPECT_EQ(many.Count(many.layout().PanelBox(0), kYellow), 100 * 100 * 19 * 19);
}

TEST(HeatmapTest, TheLegendShowsZeroAndNanIfThePictureHasThem) {
  const Picture without({1, 1, 1, 2}, {1e-9, 1}), with({1, 1, 1, 2}, {0, kNan});
  const PixelBox legend = with.layout().LegendBox();
  EXPECT_EQ(without.Count(legend, kLightGrey), 0);
  EXPECT_EQ(without.Count(legend, kRed), 0);
  EXPECT_EQ(with.Count(legend, kLightGrey), 16 * 16);
  EXPECT_EQ(with.Count(legend, kRed), 16 * 16);
}

TEST(HeatmapTest, DrawsAllZeros) {
  const Picture picture({1, 1, 2, 2}, {0, 0, 0, 0});
  EXPECT_EQ(picture.Corner(0, 1, 1), kLightGrey);
}

TEST(HeatmapTest, ACellOfSeveralWeightsShowsTheirMean) {
  std::vector<double> weights(10000, 0.0);
  weights[2] = weights[3] = 1;  // 1
  weights[4] = 0.5;             // 0.25
  weights[8] = kNan;            // NaN
  const Picture picture({1, 1, 1, 10000}, weights);
  EXPECT_EQ(picture.layout().kv_per_cell, 2);
  EXPECT_THAT(picture.layout().header, ElementsAre("demo/ones", "batch 1, num_heads 1, q_length 1, kv_length 10000",
                                                   "a cell is the mean of 1 query x 2 keys"));
  EXPECT_EQ(picture.Corner(0, 0, 0), kLightGrey);
  EXPECT_EQ(picture.Corner(0, 0, 1), kYellow);
  EXPECT_EQ(picture.Corner(0, 0, 2), kTeal);
  EXPECT_EQ(picture.Corner(0, 0, 4), kRed);
}

TEST(HeatmapTest, TheMeanOfAnIncompleteCellIsThatOfItsWeights) {
  // 9001 = 2 × 4500 + 1
  const Picture picture({1, 1, 1, 9001}, std::vector<double>(9001, 0.3));
  EXPECT_EQ(picture.layout().columns(), 4501);
  EXPECT_EQ(picture.Corner(0, 0, 0), kYellow);
  EXPECT_EQ(picture.Corner(0, 0, 4500), kYellow);
}

TEST(HeatmapTest, TheTitleIsAscii) {
  const std::vector<double> weights = {1};
  const std::string other = DrawHeatmap({{1, 1, 1, 1}, weights, "a"}).value();
  const std::string marks = DrawHeatmap({{1, 1, 1, 1}, weights, "??"}).value();
  EXPECT_EQ(DrawHeatmap({{1, 1, 1, 1}, weights, "é"}).value(), marks);
  EXPECT_NE(other, marks);
}

TEST(HeatmapTest, RefusesSizesThatDoNotMatchTheWeights) {
  const std::vector<double> weights(12, 0.5);
  EXPECT_THAT(DrawHeatmap({{1, 2, 3, 4}, weights, ""}),
              StatusIs(StatusCode::kInvalidArgument, "attn_weights: expected 24 numbers, got 12"));
  EXPECT_THAT(
      DrawHeatmap({{1, 1, 1 << 30, 1 << 30}, weights, ""}),
      StatusIs(StatusCode::kInvalidArgument,
               HasSubstr("attn_weights: shape: expected at most 2^63 - 1 bytes, got [1, 1, 1073741824, 1073741824]")));
}

struct RefusedCase {
  const char* name;
  HeatmapSizes sizes;
  const char* message;
};

class HeatmapRefusedTest : public ::testing::TestWithParam<RefusedCase> {};

TEST_P(HeatmapRefusedTest, NamesTheSizes) {
  EXPECT_THAT(DrawHeatmap({GetParam().sizes, {}, "demo/ones"}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr(GetParam().message)));
}

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

INSTANTIATE_TEST_SUITE_P(
    Sizes, HeatmapRefusedTest,
    ::testing::Values(
        RefusedCase{"NoSequence", {0, 1, 1, 1}, "attn_weights: expected positive sizes, got [0, 1, 1, 1]"},
        RefusedCase{"NoHead", {1, 0, 1, 1}, "attn_weights: expected positive sizes, got [1, 0, 1, 1]"},
        RefusedCase{"NoQuery", {1, 1, 0, 1}, "attn_weights: expected positive sizes, got [1, 1, 0, 1]"},
        RefusedCase{"NoKey", {1, 1, 1, 0}, "attn_weights: expected positive sizes, got [1, 1, 1, 0]"},
        RefusedCase{"Negative", {1, 1, -1, 1}, "attn_weights: expected positive sizes, got [1, 1, -1, 1]"},
        RefusedCase{"TenThousandPanels", {100, 100, 2, 2}, "pixels, got [100, 100, 2, 2]"},
        RefusedCase{
            "UncountablePanels", {kMost, kMost, 1, 1}, "expected a shape that fits into a picture of 8192 x 8192"},
        RefusedCase{"UncountableKeys", {1, 1, 1, kMost}, "expected a shape that fits into a picture of 8192 x 8192"}),
    [](const auto& info) { return info.param.name; });

class HeatmapFileTest : public ::testing::Test {
 protected:
  HeatmapFileTest() : folder_(::testing::TempDir() + "heatmap." + std::to_string(getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~HeatmapFileTest() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }

  const std::vector<double> weights_ = {0.25, 0.75};
  const HeatmapInput input_ = {{1, 1, 1, 2}, weights_, "demo/ones, version 1"};

 private:
  const std::string folder_;
};

TEST_F(HeatmapFileTest, HoldsThePicture) {
  ASSERT_THAT(WriteHeatmap(Path("weights.png"), input_), IsOk());
  const auto file = server::ReadFile(Path("weights.png"), "weights.png").value();
  const std::string bytes(reinterpret_cast<const char*>(file.data()), file.size());
  EXPECT_EQ(bytes, DrawHeatmap(input_).value());
}

TEST_F(HeatmapFileTest, NamesTheFileThatCannotBeWritten) {
  EXPECT_THAT(WriteHeatmap(Path("none/weights.png"), input_),
              StatusIs(StatusCode::kNotFound, HasSubstr("none/weights.png")));
  EXPECT_THAT(WriteHeatmap(Path("weights.npy"), input_),
              StatusIs(StatusCode::kInvalidArgument, "--heatmap: expected FILE.png, got " + Path("weights.npy")));
  EXPECT_FALSE(std::filesystem::exists(Path("weights.npy")));
}

}  // namespace
}  // namespace attention::cli
