#pragma once

#include <string>

#include "client/cli/explained_call.h"

namespace attention::cli {

// A line for each part of the mask, and for the bias: what it says of the row at `spot`.
std::string MaskPartsText(const ExplainedCall& call, const Spot& spot);

}  // namespace attention::cli
