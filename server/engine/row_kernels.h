#pragma once

#include <cstdint>

// The loops over rows of numbers that oneDNN has no primitive for, or none that is worth its call.
namespace attention::server {

// Sum in float64. Several sums at once, added at the end: the order depends on `count` alone.
double Sum(const float* numbers, int64_t count);

// √Σx², NaN or infinite if one of them is.
float Norm(const float* numbers, int64_t count);

// True if every number times `headroom` is finite.
bool AllFinite(const float* numbers, int64_t count, float headroom);

// to[i] = from[i] · factor
void Scale(const float* from, int64_t count, float factor, float* to);

// The same, rounded to bfloat16.
void ScaleToBFloat16(const float* from, int64_t count, float factor, uint16_t* to);

// to[i] = from[i] · correction in float64, rounded once.
void Correct(const float* from, int64_t count, double correction, float* to);

}  // namespace attention::server
