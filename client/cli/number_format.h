#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace attention::cli {

// How much of a large tensor is printed. Longer axes show their first and last entries, with "…" between.
struct PrintLimits {
  int64_t max_rows = 6;     // of every axis but the last
  int64_t max_columns = 6;  // of the last axis
};

// Marks the gap in ShownIndices.
inline constexpr int64_t kEllipsis = -1;

// The indices of an axis that are printed: all of them if there are at most `max`, else the first and last ones around
// one kEllipsis.
std::vector<int64_t> ShownIndices(int64_t size, int64_t max);

// As many digits as float32 needs to be read back, as Python writes it: "3.9975274", "24.0", "1.5e-07", "nan".
std::string FormatNumber(double value);

// "[3.0, 3.0, …, 3.0]"
std::string FormatVector(absl::Span<const double> values, int64_t max_columns);

// "[1, 2, 3]"
std::string FormatShape(absl::Span<const int64_t> shape);

// "1 row", "2 rows"
std::string CountOf(int64_t count, const std::string& noun);

// Lays rows of cells out in columns, two spaces between them, a newline after each row. A column of numbers
// (below the header, which is the first row) stands at the right, others at the left.
// REQUIRES: every row has as many cells as the first.
std::string FormatTable(const std::vector<std::vector<std::string>>& rows);

}  // namespace attention::cli
