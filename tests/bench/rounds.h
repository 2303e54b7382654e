#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "server/checkpoint/tensor.h"
#include "tests/bench/bits.h"
#include "tests/bench/roofline.h"
#include "tests/bench/workload.h"

namespace attention::bench {

// One measurement of a case, with the rates of the machine in the same round.
struct Sample {
  double seconds = 0;
  double ideal_seconds = 0;
  double peak = 0;  // FLOP/s
};

// One line of the table.
struct Case {
  Workload* workload = nullptr;
  Work work;
  server::DType compute_dtype = server::DType::kFloat32;
  int threads = 1;
  std::vector<Sample> samples;  // one per round
};

// "1x16x256x4 float32 on 1 thread"
std::string CaseName(const Case& c);

using Rooflines = std::vector<std::unique_ptr<Roofline>>;

// Must be called once before RunRounds. `min_seconds` is the time of one measurement of a case.
void RegisterCases(absl::Span<const Case> cases, const Engines& engines, double min_seconds);

// Measures all cases and rooflines alternately, in rounds. Other load on the machine then slows rooflines and cases
// equally, and it affects single rounds more than the median of all rounds.
//
// Runs one to `max_rounds` rounds; starts none that would probably not end before `deadline`.
// REQUIRES: the cases of one workload are adjacent.
absl::Status RunRounds(absl::Span<Case> cases, const Rooflines& rooflines, int max_rounds, absl::Time deadline);

}  // namespace attention::bench
