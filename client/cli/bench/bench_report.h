#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "client/cli/bench/bench_inputs.h"
#include "client/cli/bench/load_recorder.h"

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

// The outcome of one load test as a table for people.
std::string BenchText(const BenchOptions& options, const LoadResult& result);

// The same as one JSON object; every duration in nanoseconds, its key ending in _ns.
std::string BenchJson(const BenchOptions& options, const LoadResult& result);

// Rows that the server projects for one request: batch × (q_length, plus kv_length if that was given). Their mean, if
// the lengths are random.
double TokensPerRequest(const BenchOptions& options);

// "demo/small: batch 1 × q_length 16 (self-attention)"
std::string ShapeText(const BenchOptions& options);

// Three or four digits that can be compared at a glance: "87.3 µs", "4.21 ms", "1.50 s".
std::string FormatTime(double ns);

}  // namespace attention::cli
