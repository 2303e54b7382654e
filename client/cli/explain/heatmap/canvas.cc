#include "client/cli/explain/heatmap/canvas.h"

#include <gd.h>
#include <gdfontl.h>
#include <gdfonts.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace attention::cli {
namespace {

// In OKLab: lightness 0.27 to 0.92 and hue 320° to 105° in equal steps, with the largest chroma up to 0.17 that sRGB
// can show.
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

// gd's built-in fonts are encoded in ISO 8859-2.
std::string ToAscii(std::string text) {
  for (char& c : text) {
    if (!absl::ascii_isprint(static_cast<unsigned char>(c))) c = '?';
  }
  return text;
}

// gd takes text as unsigned char*, and does not change it.
unsigned char* Bytes(std::string& text) { return reinterpret_cast<unsigned char*>(text.data()); }

struct Free {
  void operator()(void* memory) const { gdFree(memory); }
};

absl::Status NoMemory(int64_t width, int64_t height) {
  return absl::ResourceExhaustedError(
      absl::StrCat("heatmap: not enough memory for a picture of ", width, " x ", height, " pixels"));
}

int Pixel(int64_t position) { return static_cast<int>(position); }

}  // namespace

Rgb HeatColor(double fraction) {
  const double position = fraction * (kControlPoints.size() - 1);
  const size_t index = std::min(static_cast<size_t>(position), kControlPoints.size() - 2);
  const Rgb &from = kControlPoints[index], &to = kControlPoints[index + 1];
  const double share = position - static_cast<double>(index);
  return {Between(from.red, to.red, share), Between(from.green, to.green, share), Between(from.blue, to.blue, share)};
}

bool IsLight(const Rgb& color) {
  // Luma in thousandths, compared with the middle of 0 to 255.
  return 299 * color.red + 587 * color.green + 114 * color.blue > 127 * 1000;
}

void Canvas::Destroy::operator()(gdImageStruct* image) const { gdImageDestroy(image); }

absl::StatusOr<Canvas> Canvas::Create(int64_t width, int64_t height) {
  std::unique_ptr<gdImageStruct, Destroy> image(gdImageCreate(Pixel(width), Pixel(height)));
  if (image == nullptr) return NoMemory(width, height);
  return Canvas(std::move(image));
}

Canvas::Color Canvas::AddColor(const Rgb& rgb) {
  return gdImageColorAllocate(image_.get(), rgb.red, rgb.green, rgb.blue);
}

void Canvas::Fill(const PixelBox& box, Color color) {
  gdImageFilledRectangle(image_.get(), Pixel(box.left), Pixel(box.top), Pixel(box.left + box.width - 1),
                         Pixel(box.top + box.height - 1), color);
}

void Canvas::Frame(const PixelBox& box, Color color) {
  gdImageRectangle(image_.get(), Pixel(box.left), Pixel(box.top), Pixel(box.left + box.width - 1),
                   Pixel(box.top + box.height - 1), color);
}

void Canvas::Title(int64_t left, int64_t top, const std::string& text, Color color) {
  std::string ascii = ToAscii(text);
  gdImageString(image_.get(), gdFontGetLarge(), Pixel(left), Pixel(top), Bytes(ascii), color);
}

void Canvas::Text(int64_t left, int64_t top, const std::string& text, Color color) {
  std::string ascii = ToAscii(text);
  gdImageString(image_.get(), gdFontGetSmall(), Pixel(left), Pixel(top), Bytes(ascii), color);
}

void Canvas::TextUp(int64_t left, int64_t bottom, const std::string& text, Color color) {
  std::string ascii = ToAscii(text);
  gdImageStringUp(image_.get(), gdFontGetSmall(), Pixel(left), Pixel(bottom), Bytes(ascii), color);
}

absl::StatusOr<std::string> Canvas::Png() const {
  int size = 0;
  const std::unique_ptr<void, Free> bytes(gdImagePngPtr(image_.get(), &size));
  if (bytes == nullptr) return NoMemory(gdImageSX(image_), gdImageSY(image_));
  return std::string(static_cast<const char*>(bytes.get()), size);
}

}  // namespace attention::cli
