#pragma once

#include <cstdint>

namespace attention::cli {

struct Rgb {
  uint8_t red = 0;
  uint8_t green = 0;
  uint8_t blue = 0;

  bool operator==(const Rgb&) const = default;
};

// From dark violet over blue and green to yellow: in equal steps of the fraction the perceived lightness rises in equal
// steps, so that no step looks like an edge, and the picture can be read in grey and by the colour-blind.
// REQUIRES: 0 <= fraction <= 1.
Rgb HeatColor(double fraction);

// Whether black text can be read on it better than white text.
bool IsLight(const Rgb& color);

// Colours that HeatColor never gives.
inline constexpr Rgb kZeroColor = {222, 222, 222};
inline constexpr Rgb kNanColor = {226, 40, 60};

}  // namespace attention::cli
