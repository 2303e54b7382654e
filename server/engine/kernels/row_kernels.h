#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "server/checkpoint/tensor.h"

// Loops over rows of float32 for which oneDNN has no primitive, or none that is worth the overhead of a call.
namespace attention::server {

// `count` rows of `size` numbers, `stride` apart.
struct Rows {
  const float* data = nullptr;
  int64_t count = 0;
  int64_t size = 0;
  int64_t stride = 0;
};

// Adds the sum of each row to sums[row], in float64. The order of the additions depends on the row size alone.
void AddSums(const Rows& rows, double* sums);

// norms[row] = √Σx². NaN or infinite if a number of the row is.
void MeasureNorms(const Rows& rows, float* norms);

// True if every number times `headroom` is finite.
bool AllFinite(const float* numbers, int64_t count, float headroom);

// True if every number of a float type is finite. `numbers` may have any alignment. REQUIRES: IsFloat(dtype).
bool AllFinite(DType dtype, const std::byte* numbers, int64_t count);

// Σ a·b in float64.
double DotProduct(const double* a, const float* b, int64_t count);

// to[row] = row · factor; the new rows are `to_stride` apart. `to` may be rows.data.
void ScaleRows(const Rows& rows, float factor, float* to, int64_t to_stride);

// to[row] = row · factors[row], rounded to bfloat16; the new rows are contiguous.
void ScaleRowsToBFloat16(const Rows& rows, const double* factors, uint16_t* to);

// to[i] = from[i], rounded to the nearest bfloat16 number. `to` may be `from`.
void RoundThroughBFloat16(const float* from, int64_t count, float* to);

// to[i] = from[i] · correction in float64, rounded once. `to` may be `from`.
void Correct(const float* from, int64_t count, double correction, float* to);

// LayerNorm without bias, as flax's normalize_qk applies it, in place: each of the `count` consecutive vectors of
// scale.size() numbers becomes (x − mean) / √(variance + 10⁻⁶) · scale. Computed in float64, and the variance from the
// deviations: mean(x²) − mean(x)² would cancel if the mean is large.
void NormalizeVectors(int64_t count, const std::vector<float>& scale, float* vectors);

}  // namespace attention::server
