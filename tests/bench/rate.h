#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace attention::bench {

// Work that Google Benchmark repeats; it chooses the number of repetitions.
struct Job {
  std::string name;        // unique; restricted as BenchShape::name
  double work = 0;         // per run
  double min_seconds = 0;  // per measurement
  int threads = 1;         // run it at the same time, numbered from 0
  std::function<absl::Status(int thread)> run;
};

void RegisterJob(const Job& job);

// Measures a registered job once. Returns the work per second of wall-clock time, summed over its threads.
absl::StatusOr<double> MeasureRate(const std::string& name);

// REQUIRES: `values` is not empty.
inline double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

}  // namespace attention::bench
