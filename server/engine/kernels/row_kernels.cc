#include "server/engine/kernels/row_kernels.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "server/checkpoint/tensor.h"
#include "server/checkpoint/vectorized.h"

namespace attention::server {
namespace {

constexpr int64_t kLanes = 16;
constexpr int64_t kHalf = kLanes / 2;

// Adding the lanes of a single row takes longer than adding its numbers, so the lanes of a block of rows are added
// together.
constexpr int64_t kBlockRows = kHalf;

template <typename Number>
using HalfLanes __attribute__((vector_size(kHalf * sizeof(Number)))) = Number;

// block[0][i] = the sum of the lanes of block[i].
template <typename Number>
inline __attribute__((always_inline)) void AddLanesOfBlock(HalfLanes<Number>* block) {
  for (int64_t i = 0; i < kBlockRows; i += 2) {
    const HalfLanes<Number>&a = block[i], &b = block[i + 1];
    block[i / 2] = __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11) +
                   __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
  }
  for (int64_t i = 0; i < kBlockRows / 2; i += 2) {
    const HalfLanes<Number>&a = block[i], &b = block[i + 1];
    block[i / 2] = __builtin_shufflevector(a, b, 0, 1, 4, 5, 8, 9, 12, 13) +
                   __builtin_shufflevector(a, b, 2, 3, 6, 7, 10, 11, 14, 15);
  }
  const HalfLanes<Number>&a = block[0], &b = block[1];
  block[0] = __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14) +
             __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15);
}

// Calls put(row, Σ term(number)) for each row. Number i is added to lane i % kLanes, the lanes are added in pairs, and
// then the numbers after the last whole group of kLanes.
template <typename Number, typename Term, typename Put>
inline __attribute__((always_inline)) void SumRows(const Rows& rows, const Term& term, const Put& put) {
  const int64_t whole = rows.size / kLanes * kLanes;
  for (int64_t first = 0; first < rows.count; first += kBlockRows) {
    const int64_t count = std::min(kBlockRows, rows.count - first);
    HalfLanes<Number> block[kBlockRows] = {};
    for (int64_t i = 0; i < count; ++i) {
      const float* row = rows.data + (first + i) * rows.stride;
      Number lower[kHalf] = {}, upper[kHalf] = {};
      for (int64_t at = 0; at < whole; at += kLanes) {
        for (int64_t lane = 0; lane < kHalf; ++lane) lower[lane] += term(row[at + lane]);
        for (int64_t lane = 0; lane < kHalf; ++lane) upper[lane] += term(row[at + kHalf + lane]);
      }
      for (int64_t lane = 0; lane < kHalf; ++lane) lower[lane] += upper[lane];
      std::memcpy(&block[i], lower, sizeof(lower));
    }
    AddLanesOfBlock<Number>(block);
    Number sums[kBlockRows];
    std::memcpy(sums, &block[0], sizeof(sums));
    for (int64_t i = 0; i < count; ++i) {
      const float* row = rows.data + (first + i) * rows.stride;
      for (int64_t at = whole; at < rows.size; ++at) sums[i] += term(row[at]);
      put(first + i, sums[i]);
    }
  }
}

// True if no number has all bits of `exponent` set. Reads bytes, because the numbers may have any alignment.
template <typename Bits>
inline __attribute__((always_inline)) bool NoneHasExponent(Bits exponent, const std::byte* numbers, int64_t count) {
  Bits any = 0;
  for (int64_t i = 0; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, numbers + i * sizeof(Bits), sizeof(Bits));
    any |= static_cast<Bits>((bits & exponent) == exponent);
  }
  return any == 0;
}

}  // namespace

ATTENTION_VECTORIZED void AddSums(const Rows& rows, double* sums) {
  SumRows<double>(
      rows, [](float number) { return static_cast<double>(number); },
      [sums](int64_t row, double sum) { sums[row] += sum; });
}

ATTENTION_VECTORIZED void MeasureNorms(const Rows& rows, float* norms) {
  SumRows<float>(
      rows, [](float number) { return number * number; },
      [norms](int64_t row, float sum) { norms[row] = std::sqrt(sum); });
}

// Zero times a number is 0 unless the number is not finite.
ATTENTION_VECTORIZED bool AllFinite(const float* numbers, int64_t count, float headroom) {
  float sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) sums[lane] += numbers[i + lane] * headroom * 0.0f;
  }
  float sum = 0;
  for (const float lane : sums) sum += lane;
  for (; i < count; ++i) sum += numbers[i] * headroom * 0.0f;
  return sum == 0.0f;
}

ATTENTION_VECTORIZED bool AllFinite(DType dtype, const std::byte* numbers, int64_t count) {
  switch (dtype) {
    case DType::kBFloat16:
      return NoneHasExponent<uint16_t>(0x7F80, numbers, count);
    case DType::kFloat16:
      return NoneHasExponent<uint16_t>(0x7C00, numbers, count);
    case DType::kFloat64:
      return NoneHasExponent<uint64_t>(0x7FF0000000000000, numbers, count);
    default:
      return NoneHasExponent<uint32_t>(0x7F800000, numbers, count);
  }
}

ATTENTION_VECTORIZED double DotProduct(const double* a, const float* b, int64_t count) {
  double sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) sums[lane] += a[i + lane] * static_cast<double>(b[i + lane]);
  }
  double sum = 0;
  for (const double lane : sums) sum += lane;
  for (; i < count; ++i) sum += a[i] * static_cast<double>(b[i]);
  return sum;
}

ATTENTION_VECTORIZED void ScaleRows(const Rows& rows, float factor, float* to, int64_t to_stride) {
  for (int64_t row = 0; row < rows.count; ++row) {
    for (int64_t i = 0; i < rows.size; ++i) to[row * to_stride + i] = rows.data[row * rows.stride + i] * factor;
  }
}

ATTENTION_VECTORIZED void ScaleRowsToBFloat16(const Rows& rows, const double* factors, uint16_t* to) {
  for (int64_t row = 0; row < rows.count; ++row) {
    const float* from = rows.data + row * rows.stride;
    const auto factor = static_cast<float>(factors[row]);
    for (int64_t i = 0; i < rows.size; ++i) to[row * rows.size + i] = RoundedToBFloat16(from[i] * factor);
  }
}

ATTENTION_VECTORIZED void RoundThroughBFloat16(const float* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) {
    to[i] = std::bit_cast<float>(static_cast<uint32_t>(RoundedToBFloat16(from[i])) << 16);
  }
}

ATTENTION_VECTORIZED void Correct(const float* from, int64_t count, double correction, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i] * correction);
}

void NormalizeVectors(int64_t count, const std::vector<float>& scale, float* vectors) {
  constexpr double kEpsilon = 1e-6;
  const auto size = static_cast<int64_t>(scale.size());
  for (float* x = vectors; x != vectors + count * size; x += size) {
    double sum = 0;
    for (int64_t i = 0; i < size; ++i) sum += static_cast<double>(x[i]);
    const double mean = sum / static_cast<double>(size);
    double squares = 0;
    for (int64_t i = 0; i < size; ++i) squares += (x[i] - mean) * (x[i] - mean);
    const double factor = 1 / std::sqrt(squares / static_cast<double>(size) + kEpsilon);
    for (int64_t i = 0; i < size; ++i) x[i] = static_cast<float>((x[i] - mean) * factor * scale[i]);
  }
}

}  // namespace attention::server
