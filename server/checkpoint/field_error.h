#pragma once

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace attention::server {

// INVALID_ARGUMENT with the one form of error text: "FIELD: expected EXPECTED, got GOT".
inline absl::Status FieldError(absl::string_view field, const absl::AlphaNum& expected, const absl::AlphaNum& got) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": expected ", expected, ", got ", got));
}

}  // namespace attention::server
