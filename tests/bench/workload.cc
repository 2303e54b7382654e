#include "tests/bench/workload.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "tests/testing/files/weights.h"

namespace attention::bench {
namespace {

using server::AttentionCall;
using server::DType;

server::HeadShape HeadsOf(const BenchShape& shape) {
  const int64_t head_dim = shape.width / shape.num_heads;
  return {shape.num_heads, shape.num_heads, head_dim, head_dim};
}

std::vector<float> RandomNumbers(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> numbers(count);
  for (float& number : numbers) number = static_cast<float>(static_cast<int32_t>(random())) * 0x1p-31f;
  return numbers;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const server::Layer>> LayerFor(const BenchShape& shape) {
  const int64_t width = shape.width;
  return server::Layer::Pack(test::RandomLayer({width, width, width, HeadsOf(shape), width}, /*seed=*/1));
}

Workload::Workload(const BenchShape& shape, std::shared_ptr<const server::Layer> layer)
    : shape_(shape), layer_(std::move(layer)) {
  const absl::Span<const Sequence> sequences(shape_.sequences);
  const size_t in_each = shape_.own_calls ? 1 : sequences.size();
  const size_t calls = sequences.size() / in_each;
  // The calls point to their elements.
  inputs_.reserve(2 * calls);
  outputs_.reserve(calls);
  for (size_t i = 0; i < calls; ++i) AddCall(sequences.subspan(i * in_each, in_each));
}

void Workload::AddCall(absl::Span<const Sequence> sequences) {
  AttentionCall call;
  call.shape.batch = static_cast<int64_t>(sequences.size());
  for (const Sequence& sequence : sequences) {
    call.shape.q_length = std::max(call.shape.q_length, sequence.queries);
    call.shape.kv_length = std::max(call.shape.kv_length, sequence.keys);
  }
  for (const Sequence& sequence : sequences) {
    server::SequenceLimits limits{.q_length = sequence.queries, .kv_length = sequence.keys};
    if (shape_.causal) limits.last_offset = 0;
    call.mask.limits.push_back(limits);
  }
  call.shape.heads = HeadsOf(shape_);
  call.shape.sharing = shape_.self_attention ? server::InputSharing::kAll : server::InputSharing::kValuesAreKeys;
  call.options.scale = 1.0f / std::sqrt(static_cast<float>(call.shape.heads.head_dim));

  const auto add_input = [&](int64_t length) -> server::InputTensor {
    inputs_.push_back(RandomNumbers(call.shape.batch * length * shape_.width, static_cast<uint32_t>(inputs_.size())));
    return {DType::kFloat32, reinterpret_cast<const std::byte*>(inputs_.back().data()), length, shape_.width};
  };
  call.inputs_q = add_input(call.shape.q_length);
  call.inputs_k = shape_.self_attention ? call.inputs_q : add_input(call.shape.kv_length);
  call.inputs_v = call.inputs_k;

  outputs_.emplace_back(call.shape.batch * call.shape.q_length * shape_.width);
  call.output = {DType::kFloat32, reinterpret_cast<std::byte*>(outputs_.back().data()), call.shape.q_length,
                 shape_.width};
  call.tokens = CountTokens(call);
  calls_.push_back(std::move(call));
}

std::vector<const AttentionCall*> Workload::CallsWith(DType compute_dtype) {
  std::vector<const AttentionCall*> calls;
  for (AttentionCall& call : calls_) {
    call.options.compute_dtype = compute_dtype;
    calls.push_back(&call);
  }
  return calls;
}

absl::Status Workload::Compute(server::Engine& engine, DType compute_dtype) {
  return engine.Compute(layer_.get(), CallsWith(compute_dtype));
}

absl::Status Workload::ComputeAlone(server::Engine& engine, DType compute_dtype) {
  for (const AttentionCall* call : CallsWith(compute_dtype)) {
    if (absl::Status status = engine.Compute(layer_.get(), {&call, 1}); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Workload::ComputeAfter(Workload& other, server::Engine& engine, DType compute_dtype) {
  std::vector<const AttentionCall*> calls = other.CallsWith(compute_dtype);
  const std::vector<const AttentionCall*> own = CallsWith(compute_dtype);
  calls.insert(calls.end(), own.begin(), own.end());
  return engine.Compute(layer_.get(), calls);
}

void Workload::ClearOutputs() {
  for (std::vector<float>& output : outputs_) std::fill(output.begin(), output.end(), 0.0f);
}

}  // namespace attention::bench
