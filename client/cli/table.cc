#include "client/cli/table.h"

#include <algorithm>
#include <cctype>

#include "absl/strings/str_cat.h"
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
