#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace attention::bench {

// Something to do over and over, with Google Benchmark, which finds out how often.
struct Job {
  std::string name;        // its own, as BenchShape::name
  double work = 0;         // of one run
  double min_seconds = 0;  // of one measurement
  int threads = 1;         // that run it at the same time, each with a number from 0 on
  std::function<absl::Status(int thread)> run;
};

void RegisterJob(const Job& job);

// Measures the registered job once: work a second of wall-clock time, of all its threads together.
absl::StatusOr<double> MeasureRate(const std::string& name);

}  // namespace attention::bench
