#include "server/engine/packed_head.h"

#include <algorithm>

#include "server/engine/tile_plan.h"

namespace attention::server {
namespace {

// Rows [columns, size] as float32, those behind the range 0.
float* ReadRows(const HeadRows& rows, KeyRange range, int64_t columns, Buffer& buffer) {
  float* dense = buffer.Reserve(columns * rows.size);
  rows.Read(range.begin, range.size(), dense);
  std::fill(dense + range.size() * rows.size, dense + columns * rows.size, 0.0f);
  return dense;
}

float* ReserveBytes(Buffer& buffer, int64_t bytes) {
  constexpr int64_t kFloatBytes = sizeof(float);
  return buffer.Reserve((bytes + kFloatBytes - 1) / kFloatBytes);
}

// What a number may be multiplied with while it stays finite as an operand: above 2¹²⁸ · (1 − 2⁻⁹) bfloat16 rounds to
// infinity.
float Headroom(DType operands) { return operands == DType::kBFloat16 ? 1.0f / (1.0f - 0x1p-9f) : 1.0f; }

// Zero times each number is 0 unless one of them is not finite. Several sums at once, for the vector unit.
bool AllFinite(const float* numbers, int64_t count, float headroom) {
  constexpr int64_t kLanes = 16;
  float sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) sums[lane] += numbers[i + lane] * headroom * 0.0f;
  }
  for (; i < count; ++i) sums[0] += numbers[i] * headroom * 0.0f;
  return std::all_of(sums, sums + kLanes, [](float sum) { return sum == 0.0f; });
}

}  // namespace

void PackedHead::Pack(Onednn& onednn, DType operands, const HeadRows& keys, const HeadRows& values, KeyRange range) {
  range_ = range;
  columns_ = KeyBucket(range.size());
  onednn.PackTransposed(keys.size, columns_, operands, ReadRows(keys, range, columns_, rows_),
                        ReserveBytes(packed_keys_, onednn.PackedBytes(keys.size, columns_, operands)));
  float* dense = ReadRows(values, range, columns_, rows_);
  ExtractNonFinite(operands, values.size, dense);
  onednn.Pack(columns_, values.size, operands, dense,
              ReserveBytes(packed_values_, onednn.PackedBytes(columns_, values.size, operands)));
}

void PackedHead::ExtractNonFinite(DType operands, int64_t size, float* values) {
  const float headroom = Headroom(operands);
  non_finite_.clear();
  if (AllFinite(values, range_.size() * size, headroom)) return;
  for (int64_t column = 0; column < range_.size(); ++column) {
    float* value = values + column * size;
    if (AllFinite(value, size, headroom)) continue;
    non_finite_.push_back({column, {value, value + size}});
    std::fill_n(value, size, 0.0f);
  }
}

void PackedHead::AddNonFinite(const float* weights, float* context) const {
  for (const NonFinite& key : non_finite_) {
    const float weight = weights[key.column];
    if (weight == 0.0f) continue;
    for (size_t i = 0; i < key.value.size(); ++i) context[i] += weight * key.value[i];
  }
}

std::vector<float> MeanRow(const HeadRows& rows, int64_t count) {
  std::vector<float> row(rows.size);
  std::vector<double> sums(rows.size);
  for (int64_t token = 0; token < count; ++token) {
    rows.Read(token, 1, row.data());
    for (int64_t i = 0; i < rows.size; ++i) sums[i] += static_cast<double>(row[i]);
  }
  for (int64_t i = 0; i < rows.size; ++i) {
    row[i] = count == 0 ? 0.0f : static_cast<float>(sums[i] / static_cast<double>(count));
  }
  return row;
}

}  // namespace attention::server
