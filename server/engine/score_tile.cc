#include "server/engine/score_tile.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace attention::server {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Returns whether a key of the row is visible.
bool HideRow(const uint8_t* mask, int64_t kv_stride, int64_t kv_length, float* scores) {
  uint8_t visible = 0;
  if (kv_stride == 1) {  // on its own, since compilers vectorise it only so
    for (int64_t key = 0; key < kv_length; ++key) {
      scores[key] = mask[key] != 0 ? scores[key] : -kInfinity;
      visible |= mask[key];
    }
  } else {
    for (int64_t key = 0; key < kv_length; ++key) {
      const uint8_t attend = mask[key * kv_stride];
      scores[key] = attend != 0 ? scores[key] : -kInfinity;
      visible |= attend;
    }
  }
  return visible != 0;
}

}  // namespace

void HideKeys(const TileMask& mask, const ScoreTile& tile) {
  for (int64_t row = 0; row < tile.rows; ++row) {
    float* scores = tile.row(row);
    if (mask.data != nullptr && !HideRow(mask.data + row * mask.q_stride, mask.kv_stride, tile.kv_length, scores)) {
      std::fill_n(scores, tile.kv_length, 0.0f);
    }
    std::fill(scores + tile.kv_length, scores + tile.stride, -kInfinity);
  }
}

void RowCorrections(const ScoreTile& tile, double* corrections) {
  // Several sums at once, for the vector unit.
  constexpr int64_t kLanes = 8;
  for (int64_t row = 0; row < tile.rows; ++row) {
    const float* weights = tile.row(row);
    double sums[kLanes] = {};
    int64_t key = 0;
    for (; key + kLanes <= tile.kv_length; key += kLanes) {
      for (int64_t lane = 0; lane < kLanes; ++lane) sums[lane] += static_cast<double>(weights[key + lane]);
    }
    double sum = std::accumulate(sums, sums + kLanes, 0.0);
    for (; key < tile.kv_length; ++key) sum += static_cast<double>(weights[key]);
    corrections[row] = 1.0 / sum;
  }
}

}  // namespace attention::server
