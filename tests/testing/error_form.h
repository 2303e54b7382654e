#pragma once

#include <string>

#include "absl/status/status.h"

namespace attention::test {

// Expects a status with this code, whose message has the one form of error text, "FIELD: expected X, got Y" or
// "FIELD: plain sentence", in plain words, and names `field`.
void ExpectErrorForm(const absl::Status& status, absl::StatusCode code, const std::string& field);

}  // namespace attention::test
