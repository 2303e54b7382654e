#include "server/engine/row_kernels.h"

#include <cmath>

#include "server/engine/bfloat16.h"
#include "server/engine/vectorized.h"

namespace attention::server {
namespace {

constexpr int64_t kLanes = 16;

// In pairs, for one after the other would take longer than the sums themselves where rows are short.
template <typename Number>
inline __attribute__((always_inline)) Number AddLanes(Number* sums) {
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (int64_t lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  }
  return sums[0];
}

}  // namespace

ATTENTION_VECTORIZED double Sum(const float* numbers, int64_t count) {
  double sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) sums[lane] += static_cast<double>(numbers[i + lane]);
  }
  double sum = AddLanes(sums);
  for (; i < count; ++i) sum += static_cast<double>(numbers[i]);
  return sum;
}

ATTENTION_VECTORIZED float Norm(const float* numbers, int64_t count) {
  float sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) sums[lane] += numbers[i + lane] * numbers[i + lane];
  }
  float sum = AddLanes(sums);
  for (; i < count; ++i) sum += numbers[i] * numbers[i];
  return std::sqrt(sum);
}

// Zero times each number is 0 unless one of them is not finite.
ATTENTION_VECTORIZED bool AllFinite(const float* numbers, int64_t count, float headroom) {
  float sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) sums[lane] += numbers[i + lane] * headroom * 0.0f;
  }
  float sum = AddLanes(sums);
  for (; i < count; ++i) sum += numbers[i] * headroom * 0.0f;
  return sum == 0.0f;
}

ATTENTION_VECTORIZED void Scale(const float* from, int64_t count, float factor, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = from[i] * factor;
}

ATTENTION_VECTORIZED void ScaleToBFloat16(const float* from, int64_t count, float factor, uint16_t* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = RoundedToBFloat16(from[i] * factor);
}

ATTENTION_VECTORIZED void Correct(const float* from, int64_t count, double correction, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i] * correction);
}

}  // namespace attention::server
