#pragma once

#include <string>

#include "client/cli/number_format.h"
#include "client/cli/numbers.h"

namespace attention::cli {

// Prints a tensor as numpy does, with commas, so that a small one can be given back as a literal:
//   [[[3.9975274, 3.0      ],
//     [0.5      , 1.0      ]]]
// `indent` is put before every line but the first.
std::string PrintTensor(const Numbers& tensor, const PrintLimits& limits, int indent = 0);

// Everything of a small tensor, the corners of one with more than 1000 elements, as numpy does.
PrintLimits NumpyLimits(const Numbers& tensor);

}  // namespace attention::cli
