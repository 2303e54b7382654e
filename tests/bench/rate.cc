#include "tests/bench/rate.h"

#include <benchmark/benchmark.h>

#include <vector>

#include "absl/strings/str_cat.h"

namespace attention::bench {
namespace {

constexpr char kRate[] = "rate";

class RateReporter : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context& /*context*/) override { return true; }

  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (const auto rate = run.counters.find(kRate); rate != run.counters.end()) rate_ = rate->second;
    }
  }

  double rate() const { return rate_; }

 private:
  double rate_ = 0;
};

void RunJob(const Job& job, benchmark::State& state) {
  for (auto _ : state) {
    if (const absl::Status status = job.run(state.thread_index()); !status.ok()) {
      return state.SkipWithError(std::string(status.message()).c_str());
    }
  }
  // Google Benchmark adds the counters of all threads and divides the sum by the time.
  state.counters[kRate] =
      benchmark::Counter(job.work * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

}  // namespace

void RegisterJob(const Job& job) {
  benchmark::RegisterBenchmark(job.name.c_str(), [job](benchmark::State& state) { RunJob(job, state); })
      ->Threads(job.threads)
      ->MinTime(job.min_seconds)
      ->UseRealTime();
}

absl::StatusOr<double> MeasureRate(const std::string& name) {
  RateReporter reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter, absl::StrCat("^", name, "/"));
  if (reporter.rate() > 0) return reporter.rate();
  return absl::InternalError(absl::StrCat(name, ": the benchmark reported no rate"));
}

}  // namespace attention::bench
