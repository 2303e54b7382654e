// The engine alone, without queue and transport: build/bin/engine_bench. GFLOP/s counts the multiplications and
// additions of the formula's products.
#include <benchmark/benchmark.h>

#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "server/engine/engine.h"
#include "tests/testing/weights.h"

namespace attention::server {
namespace {

struct BenchShape {
  int64_t batch, length, features, num_heads;

  HeadShape heads() const { return {num_heads, num_heads, features / num_heads, features / num_heads}; }
};

double FlopCount(const BenchShape& s) {
  const double tokens = static_cast<double>(s.batch * s.length);
  const double features = static_cast<double>(s.features);
  return 8 * tokens * features * features + 4 * tokens * static_cast<double>(s.length) * features;
}

void SelfAttention(benchmark::State& state, const BenchShape& s, int num_threads) {
  auto layer = Layer::Pack(test::RandomLayer({s.features, s.features, s.features, s.heads(), s.features}, /*seed=*/1));
  auto engine = Engine::Create(num_threads);
  if (!layer.ok() || !engine.ok()) return state.SkipWithError("no layer or no engine");

  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> inputs(s.batch * s.length * s.features), outputs(inputs.size());
  for (float& number : inputs) number = normal(random);
  const Shape shape = {s.batch, s.length, s.features};

  AttentionCall call;
  call.batch = s.batch;
  call.q_length = call.kv_length = s.length;
  call.heads = s.heads();
  call.options.scale = 1.0f / std::sqrt(static_cast<float>(call.heads.head_dim));
  call.inputs_q = {DType::kFloat32, shape, reinterpret_cast<const std::byte*>(inputs.data())};
  call.inputs_k = call.inputs_v = call.inputs_q;
  call.k_is_q = call.v_is_k = true;
  call.output = reinterpret_cast<std::byte*>(outputs.data());
  const AttentionCall* const calls[] = {&call};

  for (auto _ : state) {
    if (!(*engine)->Compute(layer->get(), calls).ok()) return state.SkipWithError("Compute failed");
  }
  state.counters["GFLOP/s"] = benchmark::Counter(FlopCount(s) * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

void RegisterAll() {
  constexpr BenchShape kShapes[] = {{1, 16, 256, 4},   {1, 128, 768, 12}, {8, 128, 768, 12},   {32, 128, 768, 12},
                                    {1, 512, 768, 12}, {8, 512, 768, 12}, {1, 2048, 1024, 16}, {1, 8192, 512, 8}};
  for (const BenchShape& s : kShapes) {
    for (const int threads : {1, 2}) {
      const std::string name = std::to_string(s.batch) + "x" + std::to_string(s.length) + "x" +
                               std::to_string(s.features) + "x" + std::to_string(s.num_heads) +
                               "/threads:" + std::to_string(threads);
      benchmark::RegisterBenchmark(name.c_str(),
                                   [s, threads](benchmark::State& state) { SelfAttention(state, s, threads); })
          ->UseRealTime()
          ->Unit(benchmark::kMillisecond);
    }
  }
}

}  // namespace
}  // namespace attention::server

int main(int argc, char** argv) {
  attention::server::RegisterAll();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
}
