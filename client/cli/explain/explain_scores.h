#pragma once

#include <string>

#include "absl/strings/str_cat.h"
#include "client/cli/explain/explain_steps.h"
#include "client/cli/explain/explained_call.h"
#include "client/cli/explain/hand_calculation.h"

namespace attention::cli {

// A line for each part of the mask, and for the bias: what it says of the row at `spot`.
std::string MaskPartsText(const ExplainedCall& call, const Spot& spot);

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

// Steps 3 to 7 for the row at the settings' spot: scores, mask, softmax, context, output.
std::string RowText(const ExplainedCall& call, const ExplainSettings& settings);

}  // namespace attention::cli
