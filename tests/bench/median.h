#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace attention::bench {

// REQUIRES: there is a value.
inline double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

}  // namespace attention::bench
