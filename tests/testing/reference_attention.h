#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "server/engine/layer.h"

namespace attention::test {

// One request for the reference, batch axes folded into one.
struct ReferenceInputs {
  int64_t batch = 0;
  int64_t q_length = 0;
  int64_t kv_length = 0;
  std::vector<double> inputs_q = {};  // [batch, q_length, in_features]
  std::vector<double> inputs_k = {};  // [batch, kv_length, in_k_features]
  std::vector<double> inputs_v = {};  // [batch, kv_length, in_v_features]
  std::vector<uint8_t> mask = {};     // [batch, num_heads, q_length, kv_length], 1 = attend; empty: all
};

// Every line of the formula above attention.v1.AttentionService, in its shapes.
struct ReferenceOutputs {
  std::vector<double> query;         // [batch, q_length, num_heads, head_dim], before the division
  std::vector<double> key;           // [batch, kv_length, num_heads, head_dim]
  std::vector<double> value;         // [batch, kv_length, num_heads, head_dim]
  std::vector<double> scores;        // [batch, num_heads, q_length, kv_length], before the mask
  std::vector<double> attn_weights;  // [batch, num_heads, q_length, kv_length]
  std::vector<double> context;       // [batch, q_length, num_heads, head_dim]
  std::vector<double> output;        // [batch, q_length, out_features]
};

// The whole layer in float64, one plain loop for each sum of the formula: what every other implementation is held to.
// REQUIRES: sizes of `inputs` and `parameters` agree.
ReferenceOutputs ReferenceAttention(const server::LayerParameters& parameters, const ReferenceInputs& inputs);

// The mask spread over the axes that it leaves out or has with size 1, as attention.v1.Mask.dense says.
// REQUIRES: mask_shape broadcasts to shape.
std::vector<uint8_t> BroadcastMask(absl::Span<const uint8_t> mask, absl::Span<const int64_t> mask_shape,
                                   absl::Span<const int64_t> shape);

}  // namespace attention::test
