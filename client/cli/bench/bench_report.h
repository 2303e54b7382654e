#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "client/cli/bench/load_generator.h"
#include "client/cli/options.h"

namespace attention::cli {

// Statistics of a set of durations, in nanoseconds; all 0 for an empty set.
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

// Exact: sorts all samples.
Distribution Summarize(std::vector<int64_t> samples);

// Nearest rank: the smallest sample that is not exceeded by at least `percent` of all samples.
// REQUIRES: `sorted` ascending and not empty, 0 < percent <= 100.
int64_t Percentile(absl::Span<const int64_t> sorted, double percent);

// The outcome of one load test as a table.
std::string BenchText(const BenchOptions& options, const LoadResult& result);

// The same as one JSON object. Durations are in nanoseconds, and their keys end in _ns.
std::string BenchJson(const BenchOptions& options, const LoadResult& result);

// Rows that the server projects for one request: batch × (q_length, plus kv_length if it is given). The mean if the
// lengths are random.
double TokensPerRequest(const BenchOptions& options);

// "demo/small: batch 1 × q_length 16 (self-attention)"
std::string ShapeText(const BenchOptions& options);

}  // namespace attention::cli
