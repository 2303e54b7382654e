#pragma once

#include "absl/types/span.h"
#include "tests/bench/rounds.h"

namespace attention::bench {

// Medians over the rounds of a case, those of quotients over the quotients of each round.
struct Summary {
  double seconds = 0;
  double ideal_seconds = 0;
  double share_of_peak = 0;
  double ratio = 0;  // ideal to measured time
};

Summary Summarize(const Case& c);

// Less work than this is mostly overhead: such cases are listed, but are not the worst.
inline constexpr double kFlopsThatCount = 1e8;

// The case with the lowest ratio of those that count; null if there is none.
const Case* WorstCase(absl::Span<const Case> cases);

}  // namespace attention::bench
