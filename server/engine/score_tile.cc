#include "server/engine/score_tile.h"

#include <cmath>
#include <numeric>

namespace attention::server {

void CapScores(Onednn& onednn, float softcap, const ScoreTile& tile, Buffer& scratch) {
  const int64_t count = tile.height * tile.stride;
  for (int64_t i = 0; i < count; ++i) tile.scores[i] /= softcap;
  float* capped = scratch.Reserve(count);
  onednn.Tanh(tile.height, tile.stride, tile.scores, capped);
  for (int64_t i = 0; i < count; ++i) {
    tile.scores[i] = std::isnan(tile.scores[i]) ? tile.scores[i] : capped[i] * softcap;
  }
}

void RowCorrections(const ScoreTile& tile, double* corrections) {
  // Several sums at once, for the vector unit.
  constexpr int64_t kLanes = 8;
  for (int64_t row = 0; row < tile.rows; ++row) {
    const float* weights = tile.row(row);
    double sums[kLanes] = {};
    int64_t key = 0;
    for (; key + kLanes <= tile.keys; key += kLanes) {
      for (int64_t lane = 0; lane < kLanes; ++lane) sums[lane] += static_cast<double>(weights[key + lane]);
    }
    double sum = std::accumulate(sums, sums + kLanes, 0.0);
    for (; key < tile.keys; ++key) sum += static_cast<double>(weights[key]);
    corrections[row] = 1.0 / sum;
  }
}

void Correct(const float* from, int64_t count, double correction, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i] * correction);
}

}  // namespace attention::server
