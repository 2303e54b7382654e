#pragma once

#include <bit>
#include <cstdint>

namespace attention::server {

// The number as bfloat16, rounded to nearest even; what is too large becomes infinite. A NaN whose payload stands in
// the lower half only would round to infinity; the quiet bit keeps it a NaN.
inline uint16_t RoundedToBFloat16(float number) {
  const auto bits = std::bit_cast<uint32_t>(number);
  const uint32_t to_even = bits + 0x7FFF + ((bits >> 16) & 1);
  const bool is_nan = (bits & 0x7FFFFFFF) > 0x7F800000;
  return static_cast<uint16_t>((is_nan ? bits | 0x00400000 : to_even) >> 16);
}

}  // namespace attention::server
