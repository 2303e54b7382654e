#include "client/cli/text_format.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace attention::cli {
namespace {

using Rows = std::vector<std::vector<std::string>>;

// Columns on the screen: continuation bytes of UTF-8 take none.
size_t Width(const std::string& text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
}

bool IsNumber(absl::string_view cell) {
  absl::ConsumePrefix(&cell, "-");
  return !cell.empty() && absl::ascii_isdigit(static_cast<unsigned char>(cell[0]));
}

bool IsNumberColumn(const Rows& rows, size_t column) {
  return rows.size() > 1 &&
         std::all_of(rows.begin() + 1, rows.end(), [&](const auto& row) { return IsNumber(row[column]); });
}

// Visits the shown elements twice: the first pass measures them, so that the second can align the decimal points.
class TensorPrinter {
 public:
  TensorPrinter(const Numbers& tensor, const PrintLimits& limits, int indent)
      : tensor_(tensor), limits_(limits), indent_(indent) {}

  std::string Print() {
    Visit(0, 0);
    measuring_ = false;
    text_.clear();
    Visit(0, 0);
    return text_;
  }

 private:
  void Visit(int64_t axis, int64_t index) {
    if (axis == tensor_.rank()) return Element(index);
    const bool last = axis + 1 == tensor_.rank();
    const std::string separator =
        last ? ", "
             : absl::StrCat(",", std::string(tensor_.rank() - axis - 1, '\n'), std::string(indent_ + axis + 1, ' '));
    const int64_t size = tensor_.shape[axis];
    bool first = true;
    text_ += "[";
    for (int64_t i : ShownIndices(size, last ? limits_.max_columns : limits_.max_rows)) {
      if (!first) text_ += separator;
      first = false;
      if (i == kEllipsis) {
        text_ += "…";
      } else {
        Visit(axis + 1, index * size + i);
      }
    }
    text_ += "]";
  }

  void Element(int64_t index) {
    const std::string text = Format(tensor_.values[index]);
    const size_t point = std::min(text.find('.'), text.size());
    if (measuring_) {
      before_point_ = std::max(before_point_, point);
      after_point_ = std::max(after_point_, text.size() - point);
    } else {
      absl::StrAppend(&text_, std::string(before_point_ - point, ' '), text,
                      std::string(after_point_ - (text.size() - point), ' '));
    }
  }

  std::string Format(double value) const {
    if (tensor_.dtype == DataType::kBool) return value != 0 ? "true" : "false";
    if (tensor_.dtype == DataType::kInt32 || tensor_.dtype == DataType::kInt64) {
      return absl::StrFormat("%.0f", value);
    }
    return FormatNumber(value);
  }

  const Numbers& tensor_;
  const PrintLimits limits_;
  const int indent_;
  bool measuring_ = true;
  size_t before_point_ = 0;
  size_t after_point_ = 0;
  std::string text_;
};

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

std::string FormatBytes(int64_t bytes) {
  const char* const units[] = {"B", "KiB", "MiB", "GiB"};
  double size = static_cast<double>(bytes);
  int unit = 0;
  for (; unit < 3 && size >= 1024; ++unit) size /= 1024;
  return absl::StrFormat("%.*f %s", unit == 0 ? 0 : 1, size, units[unit]);
}

std::string FormatTime(std::chrono::duration<double, std::nano> time) {
  const double ns = time.count();
  if (std::abs(ns) < 1e6) return absl::StrFormat("%.1f µs", ns / 1e3);
  if (std::abs(ns) < 1e9) return absl::StrFormat("%.2f ms", ns / 1e6);
  return absl::StrFormat("%.2f s", ns / 1e9);
}

const char* AxesText(HeadAxes axes) {
  switch (axes) {
    case HeadAxes::kLengthFeatures:
      return "[batch…, length, heads × head_dim]";
    case HeadAxes::kLengthHeads:
      return "[batch…, length, heads, head_dim]";
    case HeadAxes::kHeadsLength:
      return "[batch…, heads, length, head_dim]";
  }
  return "unknown axes";
}

std::string HeadsText(const HeadSizes& sizes) {
  const std::string kv_heads =
      sizes.num_kv_heads == sizes.num_heads ? "" : absl::StrCat(" (", sizes.num_kv_heads, " for keys and values)");
  const std::string value_head_dim =
      sizes.value_head_dim == sizes.head_dim ? "" : absl::StrCat(", value_head_dim ", sizes.value_head_dim);
  return absl::StrCat(CountOf(sizes.num_heads, "head"), kv_heads, ", head_dim ", sizes.head_dim, value_head_dim);
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

std::string PrintTensor(const Numbers& tensor, const PrintLimits& limits, int indent) {
  return TensorPrinter(tensor, limits, indent).Print();
}

PrintLimits NumpyLimits(const Numbers& tensor) {
  constexpr int64_t kAll = std::numeric_limits<int64_t>::max() - 1;
  if (tensor.values.size() <= 1000) return {.max_rows = kAll, .max_columns = kAll};
  return {.max_rows = 6, .max_columns = 6};
}

}  // namespace attention::cli
