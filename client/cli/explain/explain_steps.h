#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/cli/explain/explained_call.h"
#include "client/cli/number_format.h"

namespace attention::cli {

// What the caller calls the tensors that he gave, where that is not the name of the field: "dst" for inputs_q.
struct InputNames {
  std::string inputs_q = "inputs_q";
  std::string inputs_k = "inputs_k";
  std::string inputs_v = "inputs_v";
};

struct ExplainSettings {
  Spot spot = {};           // the query row that is spelled out
  PrintLimits limits = {};  // how much of large tensors is shown
  InputNames names = {};
};

// Lays the formula of attention.v1.AttentionService beside the numbers of one call, step by step, as one would do it by
// hand: who asks and who is asked, the projections, then for the row at `spot` its scores, mask, softmax, context and
// output, and at the end how far all that is from what the server computed.
//
// INVALID_ARGUMENT if the spot is not in the call.
absl::StatusOr<std::string> ExplainSteps(const ExplainedCall& call, const ExplainSettings& settings);

// The formula alone, as attention.v1.AttentionService gives it.
std::string FormulaText();

}  // namespace attention::cli
