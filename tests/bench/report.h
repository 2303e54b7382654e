#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "absl/types/span.h"
#include "tests/bench/rounds.h"

namespace attention::bench {

// The rooflines, the table of all cases, and the worst ratio.
std::string TextReport(absl::Span<const Case> cases, const Rooflines& rooflines);

// The same, and every round of every case.
nlohmann::ordered_json JsonReport(absl::Span<const Case> cases, const Rooflines& rooflines);

}  // namespace attention::bench
