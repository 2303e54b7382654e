#pragma once

#include <cstdint>

#include "server/engine/buffer.h"
#include "server/engine/onednn.h"

namespace attention::server {

// The scores of some queries of one sequence and head: [rows, stride], of which the first `keys` columns are keys and
// the others only fill the primitive's shape, as the rows from `rows` to `height` do. height is at most 64.
struct ScoreTile {
  float* scores = nullptr;
  int64_t rows = 0;
  int64_t height = 0;
  int64_t keys = 0;
  int64_t stride = 0;

  float* row(int64_t index) const { return scores + index * stride; }
};

// scores = softcap · tanh(scores / softcap). NaN stays NaN.
void CapScores(Onednn& onednn, float softcap, const ScoreTile& tile, Buffer& scratch);

// For each row of weights, 1 / their sum. The sum within the softmax is float32, and its rounding moves all weights of
// a row alike, by up to 10⁻⁷: enough to show in the last digit of the output. Multiplying by this takes it out again.
//
// It also completes a row whose softmax is NaN by definition, since its scores held a NaN or +∞, or nothing but −∞:
// oneDNN makes only some of its weights NaN and the others 0. The correction is then NaN, and so is everything it
// multiplies.
//
// Call after the softmax. `corrections` has room for tile.rows.
void RowCorrections(const ScoreTile& tile, double* corrections);

}  // namespace attention::server
