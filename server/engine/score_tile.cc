#include "server/engine/score_tile.h"

#include <algorithm>
#include <bit>
#include <cmath>
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

uint64_t RowsOfNaN(const ScoreTile& tile) {
  uint64_t rows = 0;
  for (int64_t row = 0; row < tile.rows; ++row) {
    const float* scores = tile.row(row);
    float largest = -kInfinity;
    bool has_nan = false;
    for (int64_t key = 0; key < tile.kv_length; ++key) {
      has_nan |= std::isnan(scores[key]);
      largest = std::max(largest, scores[key]);
    }
    if (has_nan || std::isinf(largest)) rows |= uint64_t{1} << row;
  }
  return rows;
}

void FillWithNaN(const ScoreTile& tile, uint64_t rows) {
  for (; rows != 0; rows &= rows - 1) {
    std::fill_n(tile.row(std::countr_zero(rows)), tile.kv_length, std::numeric_limits<float>::quiet_NaN());
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

float LargestMagnitude(const float* numbers, int64_t count) {
  // Without their sign, floats are ordered as their bits are, with infinity above all numbers and NaN above infinity.
  int32_t largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    largest = std::max(largest, std::bit_cast<int32_t>(numbers[i]) & std::numeric_limits<int32_t>::max());
  }
  return std::bit_cast<float>(largest);
}

}  // namespace attention::server
