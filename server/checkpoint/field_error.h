#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace attention::server {

// Error texts about a field have one form, "FIELD: expected X, got Y":
//
//   inputs_k: expected kv_length 7 as in inputs_v, got 8
//
// Other errors have the form "FIELD: sentence". No error text contains a path of the server.

// INVALID_ARGUMENT with the text "FIELD: expected EXPECTED, got GOT". The parts are inserted as they are: text from a
// request or a file must pass through EscapeForMessage first.
inline absl::Status FieldError(absl::string_view field, const absl::AlphaNum& expected, const absl::AlphaNum& got) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": expected ", expected, ", got ", got));
}

// Text from a request or a file in the form in which an error text may contain it: printable ASCII with everything else
// escaped, at most 100 characters. Longer text is cut and ends in "...".
std::string EscapeForMessage(absl::string_view text);

}  // namespace attention::server
