#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "absl/types/span.h"
#include "tests/bench/rounds.h"

namespace attention::bench {

// The measured rooflines, a table of all cases, and the worst ratio of ideal to measured time. Cases of less than 10⁸
// floating-point operations are mostly overhead: they are listed, but are not the worst.
std::string TextReport(absl::Span<const Case> cases, const Rooflines& rooflines);

// The same, and every round of every case.
nlohmann::ordered_json JsonReport(absl::Span<const Case> cases, const Rooflines& rooflines);

}  // namespace attention::bench
