#pragma once

#include <string>

#include "client/cli/explain/explain_steps.h"

namespace attention::cli {

// Step 1: which input became the queries, and which the keys and values.
std::string InputsText(const ExplainedCall& call, const ExplainSettings& settings);

// Step 2: shapes of the projections, and query, key and value of the settings' sequence and head.
std::string ProjectionsText(const ExplainedCall& call, const ExplainSettings& settings);

}  // namespace attention::cli
