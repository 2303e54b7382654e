#include "server/engine/kernels/layer_norm.h"

#include <cmath>

namespace attention::server {

void NormalizeVectors(int64_t count, const std::vector<float>& scale, float* vectors) {
  constexpr double kEpsilon = 1e-6;
  const auto size = static_cast<int64_t>(scale.size());
  for (float* x = vectors; x != vectors + count * size; x += size) {
    double sum = 0;
    for (int64_t i = 0; i < size; ++i) sum += static_cast<double>(x[i]);
    const double mean = sum / static_cast<double>(size);
    double squares = 0;
    for (int64_t i = 0; i < size; ++i) squares += (x[i] - mean) * (x[i] - mean);
    const double factor = 1 / std::sqrt(squares / static_cast<double>(size) + kEpsilon);
    for (int64_t i = 0; i < size; ++i) x[i] = static_cast<float>((x[i] - mean) * factor * scale[i]);
  }
}

}  // namespace attention::server
