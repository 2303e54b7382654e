#pragma once

#include <cstdint>

// The loops over rows of numbers that oneDNN has no primitive for, or none that is worth its call.
namespace attention::server {

// `count` rows of `size` numbers, `stride` apart.
struct Rows {
  const float* data = nullptr;
  int64_t count = 0;
  int64_t size = 0;
  int64_t stride = 0;
};

// Adds the sum of each row to sums[row], in float64. Several sums at once, added at the end: the order depends on the
// size alone.
void AddSums(const Rows& rows, double* sums);

// norms[row] = √Σx², NaN or infinite if one of them is.
void MeasureNorms(const Rows& rows, float* norms);

// True if every number times `headroom` is finite.
bool AllFinite(const float* numbers, int64_t count, float headroom);

// to[row] = row · factor; the new rows are `to_stride` apart. In place if they are the same.
void ScaleRows(const Rows& rows, float factor, float* to, int64_t to_stride);

// to[row] = row · factors[row], rounded to bfloat16 and end to end.
void ScaleRowsToBFloat16(const Rows& rows, const double* factors, uint16_t* to);

// to[i] = from[i], rounded to a number that bfloat16 has. In place if they are the same.
void RoundThroughBFloat16(const float* from, int64_t count, float* to);

// to[i] = from[i] · correction in float64, rounded once.
void Correct(const float* from, int64_t count, double correction, float* to);

}  // namespace attention::server
