#pragma once

#include <cstdint>
#include <vector>

namespace attention::server {

// Replaces each of the `count` vectors of scale.size() numbers, one after the other, by (x − mean) / √(variance + 10⁻⁶)
// · scale: flax's LayerNorm without a bias, as normalize_qk applies it. The variance is taken in a second pass over the
// deviations, and in float64: as mean(x²) − mean(x)² it would be lost where the mean is large.
void NormalizeVectors(int64_t count, const std::vector<float>& scale, float* vectors);

}  // namespace attention::server
