#pragma once

#include <string>

#include "client/cli/explain_steps.h"

namespace attention::cli {

// Steps 3 to 7 for the row at the settings' spot: scores, mask, softmax, context, output.
std::string RowText(const ExplainedCall& call, const ExplainSettings& settings);

}  // namespace attention::cli
