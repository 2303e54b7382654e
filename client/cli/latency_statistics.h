#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace attention::cli {

// What a set of durations looks like, in nanoseconds; all 0 for an empty set.
struct Distribution {
  int64_t count = 0;
  double mean = 0;
  int64_t p50 = 0;
  int64_t p90 = 0;
  int64_t p95 = 0;
  int64_t p99 = 0;
  int64_t p99_9 = 0;
  int64_t max = 0;
};

// Exact: sorts all the samples.
Distribution Summarize(std::vector<int64_t> samples);

// The smallest sample that at least `percent` of all samples do not exceed (nearest rank).
// REQUIRES: `sorted` ascending and not empty, 0 < percent <= 100.
int64_t Percentile(absl::Span<const int64_t> sorted, double percent);

}  // namespace attention::cli
