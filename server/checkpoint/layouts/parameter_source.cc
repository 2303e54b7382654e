#include "server/checkpoint/layouts/parameter_source.h"

#include <algorithm>
#include <cstring>

namespace attention::server {
namespace {

// A row-major matrix of elements of `bytes` bytes.
struct Matrix {
  const std::byte* data = nullptr;
  int64_t rows = 0, columns = 0, bytes = 0;
};

// Works on squares that fit into the first-level cache, because one side is always accessed by columns.
void Transpose(const Matrix& from, std::byte* to) {
  constexpr int64_t kSquare = 32;
  for (int64_t top = 0; top < from.rows; top += kSquare) {
    for (int64_t left = 0; left < from.columns; left += kSquare) {
      for (int64_t column = left; column < std::min(left + kSquare, from.columns); ++column) {
        for (int64_t row = top; row < std::min(top + kSquare, from.rows); ++row) {
          std::memcpy(to + (column * from.rows + row) * from.bytes,
                      from.data + (row * from.columns + column) * from.bytes, from.bytes);
        }
      }
    }
  }
}

// The rows of the source in the file.
absl::Span<const std::byte> RowBytes(const ParameterSource& source) {
  const int64_t row = *ByteCount(absl::MakeConstSpan(source.tensor->shape).subspan(1), source.tensor->dtype);
  return source.tensor->data.subspan(source.begin * row, (source.end - source.begin) * row);
}

}  // namespace

ParameterSource WholeTensor(const NamedTensor* tensor) {
  if (tensor == nullptr) return {};
  const int64_t rows = tensor->shape.empty() ? 0 : tensor->shape[0];
  return {.tensor = tensor, .begin = 0, .end = rows, .transposed = false, .shape = tensor->shape};
}

std::vector<std::byte> ReadBytes(const ParameterSource& source) {
  const absl::Span<const std::byte> rows = RowBytes(source);
  if (!source.transposed) return {rows.begin(), rows.end()};
  std::vector<std::byte> bytes(rows.size());
  Transpose({rows.data(), source.end - source.begin, source.tensor->shape[1], DTypeSize(source.tensor->dtype)},
            bytes.data());
  return bytes;
}

std::vector<float> ReadFloats(const ParameterSource& source) {
  if (source.tensor == nullptr) return {};
  const std::vector<std::byte> transposed = source.transposed ? ReadBytes(source) : std::vector<std::byte>();
  const absl::Span<const std::byte> bytes = source.transposed ? absl::MakeConstSpan(transposed) : RowBytes(source);
  std::vector<float> values(bytes.size() / DTypeSize(source.tensor->dtype));
  ToFloat32(source.tensor->dtype, bytes.data(), static_cast<int64_t>(values.size()), values.data());
  return values;
}

}  // namespace attention::server
