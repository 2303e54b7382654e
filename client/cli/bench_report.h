#pragma once

#include <string>

#include "client/cli/bench_options.h"
#include "client/cli/load_recorder.h"

namespace attention::cli {

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
