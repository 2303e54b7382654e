#include "client/cli/number_format.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace attention::cli {
namespace {

using Rows = std::vector<std::vector<std::string>>;

// Continuation bytes of UTF-8 take no room on the screen.
size_t Width(const std::string& text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
}

bool IsNumber(const std::string& cell) { return !cell.empty() && std::isdigit(static_cast<unsigned char>(cell[0])); }

bool IsNumberColumn(const Rows& rows, size_t column) {
  return rows.size() > 1 &&
         std::all_of(rows.begin() + 1, rows.end(), [&](const auto& row) { return IsNumber(row[column]); });
}

}  // namespace

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

std::string FormatTable(const Rows& rows) {
  if (rows.empty()) return "";
  std::vector<size_t> widths(rows[0].size(), 0);
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], Width(row[i]));
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - Width(row[i]), ' ');
      const bool right = IsNumberColumn(rows, i);
      absl::StrAppend(&line, i == 0 ? "" : "  ", right ? padding : "", row[i], right ? "" : padding);
    }
    absl::StrAppend(&text, absl::StripTrailingAsciiWhitespace(line), "\n");
  }
  return text;
}

}  // namespace attention::cli
