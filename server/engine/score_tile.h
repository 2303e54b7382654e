#pragma once

#include <cstdint>

namespace attention::server {

// The scores of some queries of one sequence and head: [rows, stride], of which the first kv_length columns are keys
// and the others only fill the primitive's shape. rows is at most 64.
struct ScoreTile {
  float* scores = nullptr;
  int64_t rows = 0;
  int64_t kv_length = 0;
  int64_t stride = 0;

  float* row(int64_t index) const { return scores + index * stride; }
};

// The part of a DenseMask that a tile sees: the byte of (row, key) is data[row * q_stride + key * kv_stride].
struct TileMask {
  const uint8_t* data = nullptr;  // null: every query sees every key
  int64_t q_stride = 0;
  int64_t kv_stride = 0;
};

// Replaces the scores that the softmax must not see: keys that the mask hides and the columns behind the last key
// become −∞, so that their weight is exactly 0. A row that sees no key gets equal scores at all its keys: their mean is
// what flax, which fills with the lowest finite number, gives such a row.
void HideKeys(const TileMask& mask, const ScoreTile& tile);

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
