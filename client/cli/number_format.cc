#include "client/cli/number_format.h"

#include <charconv>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

namespace attention::cli {

std::vector<int64_t> ShownIndices(int64_t size, int64_t max) {
  std::vector<int64_t> indices;
  const int64_t head = size <= max ? size : (max + 1) / 2;
  const int64_t tail = size <= max ? 0 : max / 2;
  for (int64_t i = 0; i < head; ++i) indices.push_back(i);
  if (size > max) indices.push_back(kEllipsis);
  for (int64_t i = size - tail; i < size; ++i) indices.push_back(i);
  return indices;
}

std::string FormatNumber(double value) {
  const float number = static_cast<float>(value);
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  const float size = std::abs(number);
  const bool fixed = size == 0 || (size >= 1e-4f && size < 1e9f);
  char text[64];
  const std::to_chars_result end = std::to_chars(text, text + sizeof(text), number,
                                                 fixed ? std::chars_format::fixed : std::chars_format::scientific);
  std::string result(text, end.ptr);
  if (fixed && result.find('.') == std::string::npos) result += ".0";
  return result;
}

std::string FormatVector(absl::Span<const double> values, int64_t max_columns) {
  std::vector<std::string> parts;
  for (int64_t i : ShownIndices(values.size(), max_columns)) {
    parts.push_back(i == kEllipsis ? "…" : FormatNumber(values[i]));
  }
  return absl::StrCat("[", absl::StrJoin(parts, ", "), "]");
}

std::string FormatShape(absl::Span<const int64_t> shape) { return absl::StrCat("[", absl::StrJoin(shape, ", "), "]"); }

std::string CountOf(int64_t count, const std::string& noun) {
  return absl::StrCat(count, " ", noun, count == 1 ? "" : "s");
}

}  // namespace attention::cli
