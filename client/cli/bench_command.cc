#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cli/bench_report.h"
#include "client/cli/call_inputs.h"
#include "client/cli/commands.h"
#include "client/cli/load_generator.h"
#include "client/cli/number_format.h"
#include "client/cli/progress_line.h"

namespace attention::cli {
namespace {

// The inputs that every request of the test sends.
struct BenchInputs {
  Tensor inputs_q;
  std::optional<Tensor> inputs_k, inputs_v;
};

// Normally distributed, the same on every run. RESOURCE_EXHAUSTED beyond what one message can hold.
absl::StatusOr<Tensor> RandomTensor(const std::vector<int64_t>& shape, uint64_t seed) {
  constexpr int64_t kMaxBytes = int64_t{1} << 31;
  const absl::StatusOr<int64_t> bytes = ByteSize(DataType::kFloat32, shape);
  if (!bytes.ok() || *bytes >= kMaxBytes) {
    return absl::ResourceExhaustedError(absl::StrCat("--batch, --q-length, --kv-length: inputs of shape ",
                                                     FormatShape(shape), " are larger than 2 GiB"));
  }
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(*bytes / sizeof(float));
  for (float& value : values) value = normal(random);
  return Tensor{DataType::kFloat32, shape, std::string(reinterpret_cast<const char*>(values.data()), *bytes)};
}

// A layer whose keys or values come in another width than its queries has no self-attention.
BenchOptions Resolve(BenchOptions options, const WeightSetInfo& info) {
  const bool one_width = info.in_k_features == info.in_features && info.in_v_features == info.in_features;
  if (!one_width && !options.kv_length) options.kv_length = options.q_length;
  return options;
}

absl::StatusOr<BenchInputs> MakeInputs(const BenchOptions& options, const WeightSetInfo& info) {
  BenchInputs inputs;
  absl::StatusOr<Tensor> q = RandomTensor({options.batch, options.q_length, info.in_features}, 1);
  if (!q.ok()) return q.status();
  inputs.inputs_q = *std::move(q);
  if (options.kv_length) {
    absl::StatusOr<Tensor> k = RandomTensor({options.batch, *options.kv_length, info.in_k_features}, 2);
    if (!k.ok()) return k.status();
    inputs.inputs_k = *std::move(k);
  }
  if (options.kv_length && info.in_v_features != info.in_k_features) {
    absl::StatusOr<Tensor> v = RandomTensor({options.batch, *options.kv_length, info.in_v_features}, 3);
    if (!v.ok()) return v.status();
    inputs.inputs_v = *std::move(v);
  }
  return inputs;
}

AttendRequest MakeRequest(const BenchOptions& options, const BenchInputs& inputs) {
  AttendRequest request;
  request.weight_set = options.weight_set;
  request.inputs_q = inputs.inputs_q;
  if (inputs.inputs_k) request.inputs_k = *inputs.inputs_k;
  if (inputs.inputs_v) request.inputs_v = *inputs.inputs_v;
  return request;
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
    absl::StatusOr<WeightSetInfo> info = client->GetWeightSet(options.weight_set, {.timeout = server.timeout});
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

}  // namespace

absl::StatusOr<std::string> Run(const ServerOptions& server, const BenchOptions& asked) {
  const absl::StatusOr<Connections> connections = Connect(server, asked);
  if (!connections.ok()) return connections.status();
  const BenchOptions options = Resolve(asked, connections->weight_set);
  const absl::StatusOr<BenchInputs> inputs = MakeInputs(options, connections->weight_set);
  if (!inputs.ok()) return inputs.status();
  const AttendRequest request = MakeRequest(options, *inputs);
  const CallOptions call{.timeout = server.timeout};

  const LoadResult result = RunLoad(options, [&](int64_t index, LoadDone done) {
    const Client& client = connections->clients[index % connections->clients.size()];
    client.AttendAsync(request, std::move(done), call);
  });
  if (result.samples.empty() && !result.first_error.ok()) return result.first_error;
  return options.json ? BenchJson(options, result) : BenchText(options, result);
}

}  // namespace attention::cli
