// Measures the engine alone, without queue and transport. tests/bench/run.sh builds and runs it.
//
// The ideal time of a shape is the time of its matrix products at the matmul peak plus that of its softmax at oneDNN's
// rate, without padding and hidden keys. Peak and rate are measured within a minute of the shape, so that the ratio of
// ideal to measured time is meaningful on a busy machine, too.
#include <cstdio>
#include <fstream>
#include <iostream>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "tests/bench/options.h"
#include "tests/bench/report.h"

namespace attention::bench {
namespace {

using Workloads = std::vector<std::unique_ptr<Workload>>;

absl::StatusOr<Workloads> MakeWorkloads(const Options& options) {
  std::map<std::pair<int64_t, int64_t>, std::shared_ptr<const server::Layer>> layers;
  Workloads workloads;
  for (const BenchShape& shape : options.shapes) {
    std::shared_ptr<const server::Layer>& layer = layers[{shape.width, shape.num_heads}];
    if (layer == nullptr) {
      absl::StatusOr<std::shared_ptr<const server::Layer>> made = LayerFor(shape);
      if (!made.ok()) return made.status();
      layer = *std::move(made);
    }
    workloads.push_back(std::make_unique<Workload>(shape, layer));
  }
  return workloads;
}

// Engines with 1 and 2 threads, whose bits are compared, and with the numbers of threads in the options.
absl::StatusOr<Engines> StartEngines(const Options& options) {
  Engines engines;
  std::vector<int> threads = options.threads;
  threads.insert(threads.end(), {1, 2});
  for (const int count : threads) {
    if (engines.count(count) != 0) continue;
    absl::StatusOr<std::unique_ptr<server::Engine>> engine = server::Engine::Create(count);
    if (!engine.ok()) return engine.status();
    engines.emplace(count, *std::move(engine));
  }
  return engines;
}

absl::Status CheckAllBits(const Options& options, const Workloads& workloads, const Engines& engines) {
  for (const std::unique_ptr<Workload>& workload : workloads) {
    for (const server::DType compute_dtype : options.compute_dtypes) {
      if (absl::Status status = CheckBits(*workload, compute_dtype, engines, options.quick); !status.ok())
        return status;
    }
  }
  return absl::OkStatus();
}

std::vector<Case> MakeCases(const Options& options, const Workloads& workloads) {
  std::vector<Case> cases;
  for (const std::unique_ptr<Workload>& workload : workloads) {
    for (const server::DType compute_dtype : options.compute_dtypes) {
      for (const int threads : options.threads) {
        cases.push_back({workload.get(), WorkOf(workload->shape()), compute_dtype, threads, {}});
      }
    }
  }
  return cases;
}

absl::StatusOr<Rooflines> MakeRooflines(const Options& options) {
  Rooflines rooflines;
  for (const int threads : options.threads) {
    absl::StatusOr<std::unique_ptr<Roofline>> roofline = Roofline::Create(threads, options.pace.of_roofline);
    if (!roofline.ok()) return roofline.status();
    rooflines.push_back(*std::move(roofline));
  }
  return rooflines;
}

absl::Status Run(const Options& options) {
  const absl::Time deadline = absl::Now() + absl::Seconds(options.pace.total);
  const absl::StatusOr<Workloads> workloads = MakeWorkloads(options);
  if (!workloads.ok()) return workloads.status();
  const absl::StatusOr<Engines> engines = StartEngines(options);
  if (!engines.ok()) return engines.status();
  if (absl::Status status = CheckAllBits(options, *workloads, *engines); !status.ok()) return status;
  std::cout << "bits: equal for every shape alone, after another call, and on 1 and 2 threads" << std::endl;

  const absl::StatusOr<Rooflines> rooflines = MakeRooflines(options);
  if (!rooflines.ok()) return rooflines.status();
  std::vector<Case> cases = MakeCases(options, *workloads);
  RegisterCases(cases, *engines, options.pace.of_case);
  absl::Status status = RunRounds(absl::MakeSpan(cases), *rooflines, options.pace.max_rounds, deadline);
  if (!status.ok()) return status;

  std::ofstream json(options.json_path);
  json << JsonReport(cases, *rooflines).dump(1) << '\n';
  if (!json.flush()) return absl::UnavailableError("cannot write " + options.json_path);
  std::cout << TextReport(cases, *rooflines);
  return absl::OkStatus();
}

}  // namespace
}  // namespace attention::bench

int main(int argc, char** argv) {
  const absl::Status status = attention::bench::Run(attention::bench::ParseOptions(argc, argv));
  if (status.ok()) return 0;
  std::cerr << "engine_bench: " << status.message() << '\n';
  return 1;
}
