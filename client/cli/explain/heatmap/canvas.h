#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "client/cli/explain/heatmap/layout.h"

struct gdImageStruct;
namespace attention::cli {

struct Rgb {
  uint8_t red = 0;
  uint8_t green = 0;
  uint8_t blue = 0;

  bool operator==(const Rgb&) const = default;
};

// From dark violet through blue and green to yellow. The perceived lightness rises linearly with the fraction, so that
// no step looks like an edge, and the picture is readable in grey and for the colour-blind.
// REQUIRES: 0 <= fraction <= 1.
Rgb HeatColor(double fraction);

// True if black text is easier to read on it than white text.
bool IsLight(const Rgb& color);

// Colours that HeatColor never returns.
inline constexpr Rgb kZeroColor = {222, 222, 222};
inline constexpr Rgb kNanColor = {226, 40, 60};

// A picture of up to 256 colours; the only user of libgd. Text is ASCII; any other byte is drawn as '?'. Drawing is
// clipped to the picture.
class Canvas {
 public:
  // An index of the palette. The first colour that is added is the background.
  using Color = int;

  // RESOURCE_EXHAUSTED if there is not enough memory.
  static absl::StatusOr<Canvas> Create(int64_t width, int64_t height);

  // REQUIRES: the palette has fewer than 256 colours.
  Color AddColor(const Rgb& rgb);

  void Fill(const PixelBox& box, Color color);
  void Frame(const PixelBox& box, Color color);

  // `left` and `top` are the upper left corner of the text. TextUp writes upwards from the lower left corner.
  void Title(int64_t left, int64_t top, const std::string& text, Color color);
  void Text(int64_t left, int64_t top, const std::string& text, Color color);
  void TextUp(int64_t left, int64_t bottom, const std::string& text, Color color);

  // The bytes of a PNG file. RESOURCE_EXHAUSTED as in Create.
  absl::StatusOr<std::string> Png() const;

 private:
  struct Destroy {
    void operator()(gdImageStruct* image) const;
  };

  explicit Canvas(std::unique_ptr<gdImageStruct, Destroy> image) : image_(std::move(image)) {}

  std::unique_ptr<gdImageStruct, Destroy> image_;
};

}  // namespace attention::cli
