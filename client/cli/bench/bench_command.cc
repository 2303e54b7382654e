#include <utility>
#include <vector>

#include "client/cli/bench/bench_breakdown.h"
#include "client/cli/bench/bench_inputs.h"
#include "client/cli/bench/bench_report.h"
#include "client/cli/bench/load_generator.h"
#include "client/cli/bench/progress_line.h"
#include "client/cli/commands.h"

namespace attention::cli {
namespace {

// A layer whose keys or values come in another width than its queries has no self-attention.
BenchOptions Resolve(BenchOptions options, const WeightSetInfo& info) {
  const bool one_width = info.in_k_features == info.in_features && info.in_v_features == info.in_features;
  if (!one_width && !options.kv_length) options.kv_length = options.q_length;
  return options;
}

struct Connections {
  std::vector<Client> clients;
  WeightSetInfo weight_set;
};

// Each has answered once, so that the test does not measure how it is made. No retries: a request that the server
// refuses is an error that the report has to show.
absl::StatusOr<Connections> Connect(const ServerOptions& server, const BenchOptions& options) {
  Connections connections;
  for (int i = 0; i < options.connections; ++i) {
    absl::StatusOr<Client> client = Client::Connect(server.address, {.max_attempts = 1});
    if (!client.ok()) return client.status();
    absl::StatusOr<WeightSetInfo> info =
        client->GetWeightSet(options.weight_set, options.which, {.timeout = server.timeout});
    if (!info.ok()) return info.status();
    connections.weight_set = *std::move(info);
    connections.clients.push_back(*std::move(client));
  }
  return connections;
}

LoadPlan MakePlan(const BenchOptions& options, LoadTime start) {
  return {.start = start,
          .measure_start = start + options.warmup,
          .end = start + options.warmup + options.duration,
          .max_requests = options.requests,
          .concurrency = options.in_flight(),
          .rate = options.rate};
}

LoadResult RunLoad(const BenchOptions& options, const SendRequest& send) {
  SteadyLoadClock clock;
  const LoadPlan plan = MakePlan(options, clock.Now());
  LoadRecorder recorder(plan.measure_start);
  {
    const ProgressLine progress(recorder);
    options.rate > 0 ? RunOpenLoop(plan, send, clock, recorder) : RunClosedLoop(plan, send, clock, recorder);
  }
  return recorder.TakeResult();
}

absl::StatusOr<std::string> RunBreakdown(const BenchOptions& options, const BreakdownCalls& calls) {
  SteadyLoadClock clock;
  const auto times = MeasureBreakdown(MakePlan(options, clock.Now()), calls, clock);
  if (!times.ok()) return times.status();
  return options.json ? BreakdownJson(options, *times) : BreakdownText(options, *times);
}

}  // namespace

absl::StatusOr<std::string> Run(const ServerOptions& server, const BenchOptions& asked) {
  const absl::StatusOr<Connections> connections = Connect(server, asked);
  if (!connections.ok()) return connections.status();
  const BenchOptions options = Resolve(asked, connections->weight_set);
  const absl::StatusOr<BenchInputs> inputs = MakeBenchInputs(options, connections->weight_set);
  if (!inputs.ok()) return inputs.status();
  const CallOptions call{.timeout = server.timeout};
  if (options.breakdown) {
    const BenchRequest request(options, *inputs, 0);
    return RunBreakdown(options, CallsOf(connections->clients[0], request.request(), call));
  }

  const LoadResult result = RunLoad(options, [&](int64_t index, LoadDone done) {
    const Client& client = connections->clients[index % connections->clients.size()];
    client.AttendAsync(BenchRequest(options, *inputs, index).request(), std::move(done), call);
  });
  if (result.samples.empty() && !result.first_error.ok()) return result.first_error;
  return options.json ? BenchJson(options, result) : BenchText(options, result);
}

}  // namespace attention::cli
