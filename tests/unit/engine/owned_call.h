#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "server/engine/attention_call.h"
#include "server/engine/layer.h"
#include "tests/testing/reference/reference_attention.h"

namespace attention::server {

inline std::vector<float> RandomNumbers(int64_t count, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<float> numbers(count);
  for (float& number : numbers) number = normal(random);
  return numbers;
}

struct Sizes {
  int64_t batch, q_length, kv_length;
  bool self_attention = false;
  bool with_mask = false;
  bool separate_values = false;
};

// A call with random inputs, and the memory that it points to. Not copyable.
struct OwnedCall {
  OwnedCall(const LayerShape& layer, const Sizes& s, uint32_t seed) : sizes(s) {
    std::mt19937 random(seed);
    q = RandomNumbers(s.batch * s.q_length * layer.in_features, random);
    k = RandomNumbers(s.batch * s.kv_length * layer.in_k_features, random);
    v = RandomNumbers(s.batch * s.kv_length * layer.in_v_features, random);
    output.resize(s.batch * s.q_length * layer.out_features);
    call.shape.batch = s.batch;
    call.shape.q_length = s.q_length;
    call.shape.kv_length = s.kv_length;
    call.shape.heads = layer.heads;
    call.options.scale = 1.0f / std::sqrt(static_cast<float>(layer.heads.head_dim));
    if (!s.separate_values) call.shape.sharing = InputSharing::kValuesAreKeys;
    if (s.self_attention) call.shape.sharing = InputSharing::kAll;
    call.inputs_q = Input(q, s.q_length, layer.in_features);
    call.inputs_k = s.self_attention ? call.inputs_q : Input(k, s.kv_length, layer.in_k_features);
    call.inputs_v = s.separate_values ? Input(v, s.kv_length, layer.in_v_features) : call.inputs_k;
    call.output = {DType::kFloat32, reinterpret_cast<std::byte*>(output.data()), s.q_length, layer.out_features};
    if (s.with_mask) AddMask(layer.heads.num_heads, random);
  }

  static InputTensor Input(const std::vector<float>& numbers, int64_t length, int64_t features) {
    return {DType::kFloat32, reinterpret_cast<const std::byte*>(numbers.data()), length, features};
  }

  // A mask [batch, num_heads, q_length, kv_length] under which some queries see no key.
  void AddMask(int64_t num_heads, std::mt19937& random) {
    mask.resize(sizes.batch * num_heads * sizes.q_length * sizes.kv_length);
    for (size_t i = 0; i < mask.size(); ++i) mask[i] = (i / sizes.kv_length) % 5 != 3 && random() % 3 != 0;
    ScoresTensor& dense = call.mask.dense;
    dense.data = reinterpret_cast<const std::byte*>(mask.data());
    dense.kv_stride = 1;
    dense.q_stride = sizes.kv_length;
    dense.head_stride = sizes.q_length * sizes.kv_length;
    for (int64_t i = 0; i < sizes.batch; ++i) dense.batch_offsets.push_back(i * num_heads * dense.head_stride);
  }

  test::ReferenceInputs Reference() const {
    const auto wide = [](const std::vector<float>& numbers) {
      return std::vector<double>(numbers.begin(), numbers.end());
    };
    test::ReferenceInputs inputs{sizes.batch, sizes.q_length, sizes.kv_length};
    inputs.inputs_q = wide(q);
    inputs.inputs_k = wide(sizes.self_attention ? q : k);
    inputs.inputs_v = wide(sizes.separate_values ? v : sizes.self_attention ? q : k);
    inputs.mask = mask;
    return inputs;
  }

  Sizes sizes;
  std::vector<float> q, k, v, output;
  std::vector<uint8_t> mask;
  AttentionCall call;
};

}  // namespace attention::server
