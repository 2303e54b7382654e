#pragma once

#include <string>

#include "client/cli/bench_options.h"
#include "client/cli/load_recorder.h"

namespace attention::cli {

// The outcome of one load test as a table for people.
std::string BenchText(const BenchOptions& options, const LoadResult& result);

// The same as one JSON object; every duration in nanoseconds, its key ending in _ns.
std::string BenchJson(const BenchOptions& options, const LoadResult& result);

// Rows that the server projects for one request: batch × (q_length, plus kv_length if that was given).
int64_t TokensPerRequest(const BenchOptions& options);

}  // namespace attention::cli
