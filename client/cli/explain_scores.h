#pragma once

#include <string>

#include "absl/strings/str_cat.h"
#include "client/cli/explain_steps.h"
#include "client/cli/hand_calculation.h"

namespace attention::cli {

// What each step of one row needs.
struct ExplainedRow {
  const ExplainedCall& call;
  const Spot& spot;
  const PrintLimits& limits;
  const RowByHand& by_hand;
};

// Steps 3 and 4: scores, with their soft cap, and what bias and mask make of them.
std::string ScoresText(const ExplainedRow& row);
std::string MaskText(const ExplainedRow& row);

// Calls `line` for each key that is shown, and joins what it gives.
template <typename Line>
std::string ForShownKeys(const ExplainedRow& row, Line line) {
  std::string text;
  for (int64_t j : ShownIndices(row.call.kv_length, row.limits.max_rows)) {
    if (j == kEllipsis) {
      text += "      …\n";
    } else {
      absl::StrAppend(&text, "      ", line(j), "\n");
    }
  }
  return text;
}

}  // namespace attention::cli
