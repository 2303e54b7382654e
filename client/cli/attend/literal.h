#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/tensor.h"

namespace attention::cli {

// Reads a tensor that was written out on the command line, as nested lists in JSON: "[[[1, 1, 1], [1, 1, 1]]]".
//
// `dtype` FLOAT32 takes numbers, -inf, inf and nan; INT64 takes integers; BOOL takes true, false, 1 and 0. All lists of
// one depth must have the same length; at most 8 deep. INVALID_ARGUMENT says what is wrong with the text.
absl::StatusOr<Tensor> ParseLiteral(const std::string& text, DataType dtype);

// True if `text` can only be a literal, never the name of a file: it begins with "[".
bool LooksLikeLiteral(const std::string& text);

}  // namespace attention::cli
