#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "client/cli/bench/bench_breakdown.h"
#include "client/cli/bench/bench_inputs.h"
#include "client/cli/bench/bench_report.h"
#include "client/cli/bench/load_generator.h"
#include "client/cli/commands.h"
#include "client/cli/terminal_line.h"

namespace attention::cli {
namespace {

// A layer whose key or value input differs in width from its query input cannot compute self-attention.
BenchOptions Resolve(BenchOptions options, const WeightSetInfo& info) {
  const bool one_width = info.in_k_features == info.in_features && info.in_v_features == info.in_features;
  if (!one_width && !options.kv_length) options.kv_length = options.q_length;
  return options;
}

struct Connections {
  std::vector<Client> clients;
  WeightSetInfo weight_set;
};

// Makes one call on each connection, so that the test does not measure connecting. No retries: the report shows every
// request that the server refuses.
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

// Shows the progress of a load test once per second while it exists.
class LoadProgress {
 public:
  // `recorder` must outlive this.
  explicit LoadProgress(const LoadRecorder& recorder) : recorder_(recorder) {
    if (line_.is_visible()) thread_ = std::thread([this] { Run(); });
  }
  ~LoadProgress() {
    stop_.Notify();
    if (thread_.joinable()) thread_.join();
  }

 private:
  void Run() {
    int64_t last = 0;
    for (int second = 1; !stop_.WaitForNotificationWithTimeout(absl::Seconds(1)); ++second) {
      const LoadRecorder::Progress now = recorder_.progress();
      line_.Show(absl::StrCat(second, " s: ", now.requests, " requests, ", now.requests - last, " in the last second, ",
                              now.in_flight, " in flight, ", now.errors, " errors"));
      last = now.requests;
    }
  }

  const LoadRecorder& recorder_;
  const TerminalLine line_;
  absl::Notification stop_;
  std::thread thread_;
};

LoadResult RunLoad(const BenchOptions& options, const SendRequest& send) {
  SteadyLoadClock clock;
  const LoadPlan plan = MakePlan(options, clock.Now());
  LoadRecorder recorder(plan.measure_start);
  {
    const LoadProgress progress(recorder);
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

absl::StatusOr<std::string> Run(const ServerOptions& server, const BenchOptions& requested) {
  const absl::StatusOr<Connections> connections = Connect(server, requested);
  if (!connections.ok()) return connections.status();
  const BenchOptions options = Resolve(requested, connections->weight_set);
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
