#include "server/engine/score_tile.h"

#include <algorithm>
#include <cmath>

#include "server/engine/row_kernels.h"

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
  std::fill_n(corrections, tile.rows, 0.0);
  AddSums({tile.scores, tile.rows, tile.keys, tile.stride}, corrections);
  for (int64_t row = 0; row < tile.rows; ++row) corrections[row] = 1.0 / corrections[row];
}

}  // namespace attention::server
