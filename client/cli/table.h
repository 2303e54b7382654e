#pragma once

#include <string>
#include <vector>

namespace attention::cli {

// Lays rows of cells out in columns, two spaces between them, a newline after each row. A column of numbers
// (below the header, which is the first row) stands at the right, others at the left.
// REQUIRES: every row has as many cells as the first.
std::string FormatTable(const std::vector<std::vector<std::string>>& rows);

}  // namespace attention::cli
