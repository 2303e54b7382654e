#include "tests/testing/matchers.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/checkpoint/tensor.h"

namespace attention::test {
namespace {

template <typename T>
std::vector<double> Elements(const std::string& bytes) {
  std::vector<T> elements(bytes.size() / sizeof(T));
  if (!elements.empty()) std::memcpy(elements.data(), bytes.data(), elements.size() * sizeof(T));
  return {elements.begin(), elements.end()};
}

std::vector<double> HalfElements(server::DType dtype, const std::string& bytes) {
  std::vector<float> elements(bytes.size() / 2);
  server::ToFloat32(dtype, reinterpret_cast<const std::byte*>(bytes.data()), static_cast<int64_t>(elements.size()),
                    elements.data());
  return {elements.begin(), elements.end()};
}

bool ElementIsNear(double got, double value, const Expected& expected) {
  if (std::isnan(value)) return std::isnan(got);
  if (std::isinf(value)) return got == value;
  return std::abs(got - value) <= expected.abs_tolerance + expected.rel_tolerance * std::abs(value);
}

// "[0, 1, 3]", the position of an element in its tensor.
std::string IndexString(size_t element, const std::vector<int64_t>& shape) {
  std::vector<int64_t> index(shape.size());
  for (size_t axis = shape.size(); axis-- > 0;) {
    index[axis] = static_cast<int64_t>(element) % shape[axis];
    element /= shape[axis];
  }
  return server::ShapeString(index);
}

}  // namespace

std::vector<double> Values(const Tensor& tensor) {
  switch (tensor.dtype) {
    case DataType::kFloat32:
      return Elements<float>(tensor.bytes);
    case DataType::kFloat64:
      return Elements<double>(tensor.bytes);
    case DataType::kBFloat16:
      return HalfElements(server::DType::kBFloat16, tensor.bytes);
    case DataType::kFloat16:
      return HalfElements(server::DType::kFloat16, tensor.bytes);
    case DataType::kBool:
      return Elements<uint8_t>(tensor.bytes);
    case DataType::kInt32:
      return Elements<int32_t>(tensor.bytes);
    case DataType::kInt64:
      return Elements<int64_t>(tensor.bytes);
  }
  return {};
}

bool IsNear(const Tensor& tensor, const Expected& expected, std::string& why) {
  const std::vector<double> got = Values(tensor);
  if (tensor.shape != expected.shape || got.size() != expected.values.size()) {
    why = absl::StrCat("expected shape ", server::ShapeString(expected.shape), " with ", expected.values.size(),
                       " elements, got ", server::ShapeString(tensor.shape), " with ", got.size());
    return false;
  }
  const size_t row_size = expected.shape.empty() ? 1 : static_cast<size_t>(expected.shape.back());
  size_t off = 0;
  double largest = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    if (!expected.rows.empty() && expected.rows[i / row_size] == 0) continue;
    if (ElementIsNear(got[i], expected.values[i], expected)) continue;
    if (off++ == 0) {
      why = absl::StrCat("at ", IndexString(i, tensor.shape), ": expected ", expected.values[i], ", got ", got[i]);
    }
    largest = std::max(largest, std::abs(got[i] - expected.values[i]));
  }
  if (off != 0) absl::StrAppend(&why, "; ", off, " of ", got.size(), " elements are wrong, by up to ", largest);
  return off == 0;
}

}  // namespace attention::test
