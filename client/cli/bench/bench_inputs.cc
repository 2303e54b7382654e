#include "client/cli/bench/bench_inputs.h"

#include <random>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cli/text_format.h"

namespace attention::cli {
namespace {

absl::StatusOr<Tensor> RandomTensor(const std::vector<int64_t>& shape, uint64_t seed) {
  constexpr int64_t kMaxBytes = int64_t{1} << 31;
  const absl::StatusOr<int64_t> bytes = ByteSize(DataType::kFloat32, shape);
  if (!bytes.ok() || *bytes >= kMaxBytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "--batch, --q-length, --kv-length: expected inputs of less than 2 GiB, got shape ", FormatShape(shape)));
  }
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(*bytes / sizeof(float));
  for (float& value : values) value = normal(random);
  return Tensor{DataType::kFloat32, shape, std::string(reinterpret_cast<const char*>(values.data()), *bytes)};
}

// From 1 to `most`. The seed is the index of the request, since requests are made on several threads.
int64_t RandomLength(int64_t most, int64_t index) {
  std::minstd_rand random(static_cast<uint32_t>(index));
  random.discard(2);  // the first numbers of neighbouring seeds are close together
  return 1 + static_cast<int64_t>(random()) % most;
}

// The first rows of the tensor, as sequences of this length.
TensorRef FirstRows(const Tensor& tensor, int64_t length, std::vector<int64_t>& shape) {
  shape = {tensor.shape[0], length, tensor.shape[2]};
  const size_t bytes = tensor.bytes.size() / tensor.shape[1] * length;
  return {tensor.dtype, shape, {tensor.bytes.data(), bytes}};
}

}  // namespace

absl::StatusOr<BenchInputs> MakeBenchInputs(const BenchOptions& options, const WeightSetInfo& info) {
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

BenchRequest::BenchRequest(const BenchOptions& options, const BenchInputs& inputs, int64_t index) {
  const auto length = [&](int64_t most) { return options.random_lengths ? RandomLength(most, index) : most; };
  request_.weight_set = options.weight_set;
  request_.version = options.which.version;
  request_.alias = options.which.alias;
  request_.inputs_q = FirstRows(inputs.inputs_q, length(options.q_length), q_shape_);
  if (!options.kv_length) return;
  const int64_t kv_length = length(*options.kv_length);
  if (inputs.inputs_k) request_.inputs_k = FirstRows(*inputs.inputs_k, kv_length, k_shape_);
  if (inputs.inputs_v) request_.inputs_v = FirstRows(*inputs.inputs_v, kv_length, v_shape_);
}

}  // namespace attention::cli
