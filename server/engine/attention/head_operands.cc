#include "server/engine/attention/head_operands.h"

#include <algorithm>
#include <cmath>

#include "server/engine/kernels/row_kernels.h"
#include "server/engine/onednn/tile_shapes.h"

namespace attention::server {
namespace {

// Rounds up to whole cache lines.
int64_t LinesOf(int64_t bytes) {
  constexpr int64_t kLine = 64;
  return (bytes + kLine - 1) / kLine * kLine;
}

// A number is finite as an operand if it is finite when multiplied by this: numbers from 2¹²⁸ · (1 − 2⁻⁹) on round to
// an infinite bfloat16.
float Headroom(DType operands) { return operands == DType::kBFloat16 ? 1.0f / (1.0f - 0x1p-9f) : 1.0f; }

// The larger of two numbers; NaN if one is NaN.
float Larger(float a, float b) { return a >= b || std::isnan(a) ? a : b; }

// Reads keys to rows [columns, size + 1]; rows after the keys are 0.
void ReadKeys(const HeadRows& keys, const KeyChunk& chunk, float* rows) {
  const int64_t width = keys.size + 1;
  keys.Read(chunk.range.begin, chunk.range.size(), rows, width);
  for (int64_t i = 0; i < chunk.range.size(); ++i) rows[i * width + keys.size] = 1.0f;
  std::fill(rows + chunk.range.size() * width, rows + chunk.columns * width, 0.0f);
}

// Reads values to rows [columns, size]; rows after the values are 0.
void ReadValues(const HeadRows& values, const KeyChunk& chunk, float* rows) {
  values.Read(chunk.range.begin, chunk.range.size(), rows, values.size);
  std::fill(rows + chunk.range.size() * values.size, rows + chunk.columns * values.size, 0.0f);
}

}  // namespace

void HeadOperands::Read(const Onednn& onednn, DType operands, const HeadRows& keys, const HeadRows& values,
                        KeyRange range, int64_t chunk_keys, const StopToken* stop) {
  key_rows_ = keys;
  value_rows_ = values;
  range_ = range;
  CutChunks(chunk_keys);
  norms_.resize(range.size());
  largest_norms_.resize(range.size());
  non_finite_.clear();
  const int64_t width = keys.size + 1;
  const int64_t size = onednn.OperandBytes(operands);
  int64_t bytes = 0;
  for (const KeyChunk& chunk : chunks_) {
    bytes += LinesOf(chunk.columns * width * size) + LinesOf(chunk.columns * values.size * size);
  }
  constexpr int64_t kFloatBytes = sizeof(float);
  auto* at = reinterpret_cast<std::byte*>(operands_.Reserve(bytes / kFloatBytes));
  // float32 rows are read directly to their place; others are rounded from `rows_`.
  const auto rows_at = [&](int64_t count) {
    return operands == DType::kFloat32 ? reinterpret_cast<float*>(at) : rows_.Reserve(count);
  };
  const auto finish = [&](const float* rows, int64_t count) {
    const std::byte* operand = at;
    if (operands != DType::kFloat32) onednn.ToOperands(operands, count, rows, at);
    at += LinesOf(count * size);
    return operand;
  };
  for (KeyChunk& chunk : chunks_) {
    if (stop != nullptr && stop->ShouldStop()) return;
    float* rows = rows_at(chunk.columns * width);
    ReadKeys(keys, chunk, rows);
    MeasureKeys(keys.size, chunk, rows);
    chunk.keys = finish(rows, chunk.columns * width);

    rows = rows_at(chunk.columns * values.size);
    ReadValues(values, chunk, rows);
    ExtractNonFinite(operands, values.size, chunk, rows);
    chunk.values = finish(rows, chunk.columns * values.size);
  }
}

void HeadOperands::CutChunks(int64_t chunk_keys) {
  chunks_.clear();
  for (int64_t first = range_.begin; first < range_.end; first += chunk_keys) {
    const KeyRange keys{first, std::min(first + chunk_keys, range_.end)};
    chunks_.push_back({.range = keys, .columns = KeyBucket(keys.size())});
  }
}

int64_t Columns(absl::Span<const KeyChunk> chunks) {
  int64_t columns = 0;
  for (const KeyChunk& chunk : chunks) columns += chunk.columns;
  return columns;
}

void HeadOperands::MeasureKeys(int64_t size, const KeyChunk& chunk, const float* rows) {
  const int64_t first = chunk.range.begin - range_.begin;
  MeasureNorms({rows, chunk.range.size(), size, size + 1}, norms_.data() + first);
  float largest = first == 0 ? 0 : largest_norms_[first - 1];
  for (int64_t i = first; i < first + chunk.range.size(); ++i) {
    largest = Larger(largest, norms_[i]);
    largest_norms_[i] = largest;
  }
}

float HeadOperands::LargestNorm(KeyRange range) const {
  if (range.begin == range_.begin) return range.empty() ? 0 : largest_norms_[range.end - range_.begin - 1];
  float largest = 0;
  for (int64_t key = range.begin; key < range.end; ++key) largest = Larger(largest, norms_[key - range_.begin]);
  return largest;
}

void HeadOperands::ExtractNonFinite(DType operands, int64_t size, const KeyChunk& chunk, float* values) {
  const float headroom = Headroom(operands);
  if (AllFinite(values, chunk.range.size() * size, headroom)) return;
  for (int64_t i = 0; i < chunk.range.size(); ++i) {
    float* value = values + i * size;
    if (AllFinite(value, size, headroom)) continue;
    non_finite_.push_back({chunk.range.begin + i, {value, value + size}});
    std::fill_n(value, size, 0.0f);
  }
}

void HeadOperands::AddNonFinite(const KeyChunk& chunk, int64_t rows, const float* weights, const double* factors,
                                float* context) const {
  for (const NonFinite& at : non_finite_) {
    if (at.key < chunk.range.begin || at.key >= chunk.range.end) continue;
    const auto size = static_cast<int64_t>(at.value.size());
    for (int64_t row = 0; row < rows; ++row) {
      const float weight = weights[row * chunk.columns + at.key - chunk.range.begin];
      if (weight == 0.0f) continue;
      const auto factor = static_cast<float>(factors == nullptr ? 1 : factors[row]);
      for (int64_t i = 0; i < size; ++i) context[row * size + i] += weight * factor * at.value[i];
    }
  }
}

std::vector<float> MeanRow(const HeadRows& rows, int64_t count, const StopToken* stop) {
  std::vector<float> row(rows.size);
  std::vector<double> sums(rows.size);
  constexpr int64_t kTokensBetweenPolls = 1024;
  for (int64_t token = 0; token < count; ++token) {
    if (stop != nullptr && token % kTokensBetweenPolls == 0 && stop->ShouldStop()) break;
    rows.Read(token, 1, row.data(), rows.size);
    for (int64_t i = 0; i < rows.size; ++i) sums[i] += static_cast<double>(row[i]);
  }
  for (int64_t i = 0; i < rows.size; ++i) {
    row[i] = count == 0 ? 0.0f : static_cast<float>(sums[i] / static_cast<double>(count));
  }
  return row;
}

}  // namespace attention::server
