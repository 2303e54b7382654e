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

// One measurement of a case, with what the machine could do in the same round.
struct Sample {
  double seconds = 0;
  double ideal_seconds = 0;
  double peak = 0;  // FLOP/s
};

// A line of the table.
struct Case {
  Workload* workload = nullptr;
  Work work;
  server::DType compute_dtype = server::DType::kFloat32;
  int threads = 1;
  std::vector<Sample> samples;  // one a round
};

// "1x16x256x4 float32 on 1 thread"
std::string CaseName(const Case& c);

using Rooflines = std::vector<std::unique_ptr<Roofline>>;

// To be called once before RunRounds. `min_seconds` is the time of one measurement of a case.
void RegisterCases(absl::Span<const Case> cases, const Engines& engines, double min_seconds);

// Measures all cases in turn, and the rooflines between them, round by round: a machine that is busy with something
// else for a while disturbs rooflines and cases alike, and some rounds, not the median of all.
//
// At least one round, at most `most`, none that would probably not end before `deadline`.
// REQUIRES: the cases of one workload stand together.
absl::Status RunRounds(absl::Span<Case> cases, const Rooflines& rooflines, int most, absl::Time deadline);

}  // namespace attention::bench
