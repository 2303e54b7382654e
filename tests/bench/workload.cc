#include "tests/bench/workload.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "tests/testing/weights.h"

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
  // The calls point into these.
  shapes_.reserve(2 * calls);
  inputs_.reserve(2 * calls);
  outputs_.reserve(calls);
  for (size_t i = 0; i < calls; ++i) AddCall(sequences.subspan(i * in_each, in_each));
}

void Workload::AddCall(absl::Span<const Sequence> sequences) {
  AttentionCall call;
  call.batch = static_cast<int64_t>(sequences.size());
  for (const Sequence& sequence : sequences) {
    call.q_length = std::max(call.q_length, sequence.queries);
    call.kv_length = std::max(call.kv_length, sequence.keys);
  }
  for (const Sequence& sequence : sequences) {
    server::SequenceLimits limits{.q_length = sequence.queries, .kv_length = sequence.keys};
    if (shape_.causal) limits.last_offset = 0;
    call.mask.limits.push_back(limits);
  }
  call.heads = HeadsOf(shape_);
  call.options.scale = 1.0f / std::sqrt(static_cast<float>(call.heads.head_dim));

  const auto add_input = [&](int64_t length) -> server::TensorView {
    shapes_.push_back({call.batch, length, shape_.width});
    inputs_.push_back(RandomNumbers(call.batch * length * shape_.width, static_cast<uint32_t>(inputs_.size())));
    return {DType::kFloat32, shapes_.back(), reinterpret_cast<const std::byte*>(inputs_.back().data())};
  };
  call.inputs_q = add_input(call.q_length);
  call.inputs_k = shape_.self_attention ? call.inputs_q : add_input(call.kv_length);
  call.inputs_v = call.inputs_k;
  call.k_is_q = shape_.self_attention;
  call.v_is_k = true;

  outputs_.emplace_back(call.batch * call.q_length * shape_.width);
  call.output = reinterpret_cast<std::byte*>(outputs_.back().data());
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

absl::Status Workload::ComputeBehind(Workload& other, server::Engine& engine, DType compute_dtype) {
  std::vector<const AttentionCall*> calls = other.CallsWith(compute_dtype);
  const std::vector<const AttentionCall*> own = CallsWith(compute_dtype);
  calls.insert(calls.end(), own.begin(), own.end());
  return engine.Compute(layer_.get(), calls);
}

void Workload::ClearOutputs() {
  for (std::vector<float>& output : outputs_) std::fill(output.begin(), output.end(), 0.0f);
}

}  // namespace attention::bench
