#include "client/cli/heatmap_colors.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace attention::cli {
namespace {

// In OKLab: lightness 0.27 to 0.92 and hue 320° to 105° in equal steps, with as much chroma up to 0.17 as sRGB has
// there.
constexpr std::array<Rgb, 9> kControlPoints = {{{64, 1, 76},
                                                {67, 23, 136},
                                                {37, 68, 172},
                                                {2, 110, 162},
                                                {12, 142, 162},
                                                {7, 174, 161},
                                                {28, 208, 135},
                                                {160, 224, 100},
                                                {246, 234, 78}}};

uint8_t Between(uint8_t from, uint8_t to, double share) {
  return static_cast<uint8_t>(std::lround(from + (to - from) * share));
}

}  // namespace

Rgb HeatColor(double fraction) {
  const double position = fraction * (kControlPoints.size() - 1);
  const size_t index = std::min(static_cast<size_t>(position), kControlPoints.size() - 2);
  const Rgb &from = kControlPoints[index], &to = kControlPoints[index + 1];
  const double share = position - static_cast<double>(index);
  return {Between(from.red, to.red, share), Between(from.green, to.green, share), Between(from.blue, to.blue, share)};
}

bool IsLight(const Rgb& color) {
  // The weights of luma, in thousandths; the middle of 0 to 255.
  return 299 * color.red + 587 * color.green + 114 * color.blue > 127 * 1000;
}

}  // namespace attention::cli
