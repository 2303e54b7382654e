#include "tests/bench/rounds.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/bench/rate.h"

namespace attention::bench {
namespace {

// Measures cases with the roofline's number of threads, and the roofline before each shape and after the last one.
absl::Status RunRound(absl::Span<Case* const> cases, Roofline& roofline) {
  const size_t measured_before = roofline.measured().size();
  const Workload* workload = nullptr;
  for (Case* c : cases) {
    if (c->workload != std::exchange(workload, c->workload)) {
      if (absl::Status status = roofline.Measure(); !status.ok()) return status;
    }
    const absl::StatusOr<double> flops = MeasureRate(CaseName(*c));
    if (!flops.ok()) return flops.status();
    c->samples.push_back({.seconds = c->work.flops / *flops});
  }
  if (absl::Status status = roofline.Measure(); !status.ok()) return status;

  const Rates rates = MedianRates(absl::MakeConstSpan(roofline.measured()).subspan(measured_before));
  for (Case* c : cases) {
    c->samples.back().ideal_seconds = IdealSeconds(c->work, c->compute_dtype, rates);
    c->samples.back().peak = rates.Peak(c->compute_dtype);
  }
  return absl::OkStatus();
}

std::vector<Case*> CasesOn(int threads, absl::Span<Case> cases) {
  std::vector<Case*> selected;
  for (Case& c : cases) {
    if (c.threads == threads) selected.push_back(&c);
  }
  return selected;
}

}  // namespace

std::string CaseName(const Case& c) {
  return absl::StrCat(c.workload->shape().name, " ", DTypeName(c.compute_dtype), " on ", c.threads,
                      c.threads == 1 ? " thread" : " threads");
}

void RegisterCases(absl::Span<const Case> cases, const Engines& engines, double min_seconds) {
  for (const Case& c : cases) {
    const auto run = [workload = c.workload, engine = engines.at(c.threads).get(), compute_dtype = c.compute_dtype](
                         int /*thread*/) { return workload->Compute(*engine, compute_dtype); };
    // One thread calls the engine, which has its own pool.
    RegisterJob({.name = CaseName(c), .work = c.work.flops, .min_seconds = min_seconds, .threads = 1, .run = run});
  }
}

absl::Status RunRounds(absl::Span<Case> cases, const Rooflines& rooflines, int max_rounds, absl::Time deadline) {
  absl::Duration longest;
  for (int round = 0; round < max_rounds; ++round) {
    const absl::Time start = absl::Now();
    if (round > 0 && start + longest > deadline) break;
    for (const std::unique_ptr<Roofline>& roofline : rooflines) {
      if (absl::Status status = RunRound(CasesOn(roofline->threads(), cases), *roofline); !status.ok()) return status;
    }
    longest = std::max(longest, absl::Now() - start);
  }
  return absl::OkStatus();
}

}  // namespace attention::bench
