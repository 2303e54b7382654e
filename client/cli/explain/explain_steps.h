#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/cli/explain/explained_call.h"
#include "client/cli/text_format.h"

namespace attention::cli {

// The caller's own names of the tensors, such as "dst" for inputs_q.
struct InputNames {
  std::string inputs_q = "inputs_q";
  std::string inputs_k = "inputs_k";
  std::string inputs_v = "inputs_v";
};

struct ExplainSettings {
  Spot spot = {};           // the query row that is calculated step by step
  PrintLimits limits = {};  // of large tensors
  InputNames names = {};
};

// Shows the formula of attention.v1.AttentionService with the numbers of one call, as a calculation by hand: inputs and
// projections, then for the row at `spot` scores, mask, softmax, context and output, and finally the largest difference
// between this calculation and the server's numbers, over all rows.
//
// INVALID_ARGUMENT if the spot is not in the call.
absl::StatusOr<std::string> ExplainSteps(const ExplainedCall& call, const ExplainSettings& settings);

// Steps 3 to 7 of ExplainSteps: scores, mask, softmax, context and output of the row at the settings' spot, which must
// be in the call.
std::string RowText(const ExplainedCall& call, const ExplainSettings& settings);

// The formula alone, as attention.v1.AttentionService documents it.
std::string FormulaText();

}  // namespace attention::cli
