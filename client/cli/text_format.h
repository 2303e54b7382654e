#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "client/attention_client.h"
#include "client/cli/numbers.h"

namespace attention::cli {

// Numbers, tensors and tables as text.

// How much of a large tensor is printed. Longer axes show their first and last entries, with "…" between.
struct PrintLimits {
  int64_t max_rows = 6;     // of every axis but the last
  int64_t max_columns = 6;  // of the last axis
};

// Marks the gap in ShownIndices.
inline constexpr int64_t kEllipsis = -1;

// The indices of an axis that are printed: all of them if there are at most `max`, else the first and the last ones
// with one kEllipsis between.
std::vector<int64_t> ShownIndices(int64_t size, int64_t max);

// The shortest text that reads back as the same float32, in Python's style: "3.9975274", "24.0", "1.5e-07", "nan".
std::string FormatNumber(double value);

// "[3.0, 3.0, …, 3.0]"
std::string FormatVector(absl::Span<const double> values, int64_t max_columns);

// "[1, 2, 3]"
std::string FormatShape(absl::Span<const int64_t> shape);

// "1 row", "2 rows"
std::string CountOf(int64_t count, const std::string& noun);

// "9.2 MiB"
std::string FormatBytes(int64_t bytes);

// Three or four digits: "87.3 µs", "4.21 ms", "1.50 s".
std::string FormatTime(std::chrono::duration<double, std::nano> time);

// "[batch…, length, heads, head_dim]"
const char* AxesText(HeadAxes axes);

struct HeadSizes {
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t value_head_dim = 0;
};

// "8 heads, head_dim 64"; where they differ also "8 heads (2 for keys and values), head_dim 64, value_head_dim 32".
std::string HeadsText(const HeadSizes& sizes);

// Arranges rows of cells in columns, with two spaces between them and a newline after each row. The first row is the
// header. A column of numbers is aligned right, others left.
// REQUIRES: every row has as many cells as the first.
std::string FormatTable(const std::vector<std::vector<std::string>>& rows);

// Prints a tensor in numpy's style, with commas, so that a small one can be used as a nested list on the command line:
//   [[[3.9975274, 3.0      ],
//     [0.5      , 1.0      ]]]
// `indent` is put before every line but the first.
std::string PrintTensor(const Numbers& tensor, const PrintLimits& limits, int indent = 0);

// All of a tensor of up to 1000 elements, the corners of a larger one, as numpy does.
PrintLimits NumpyLimits(const Numbers& tensor);

}  // namespace attention::cli
