#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "server/engine/attention_call.h"
#include "server/engine/layer.h"

namespace attention::test {

// One request for the reference, batch axes folded into one.
struct ReferenceInputs {
  int64_t batch = 0;
  int64_t q_length = 0;
  int64_t kv_length = 0;
  // [batch, q_length, in_features] and so on; without projections [batch, length, heads, head_dim].
  std::vector<double> inputs_q = {};
  std::vector<double> inputs_k = {};
  std::vector<double> inputs_v = {};
  std::vector<uint8_t> mask = {};       // [batch, num_heads, q_length, kv_length], 1 = attend; empty: all
  std::vector<double> bias = {};        // the same shape, −∞ hides; empty: none
  std::vector<int64_t> q_lengths = {};  // [batch]; empty: q_length in each
  std::optional<double> scale = {};     // default: 1/√head_dim
  std::optional<double> softcap = {};   // default: none
  // kError is computed as kUniform.
  server::EmptyRowRule empty_rows = server::EmptyRowRule::kUniform;
  // Both operands of each product are rounded to bfloat16: compute_dtype BFLOAT16.
  bool bfloat16 = false;
};

// Every line of the formula above attention.v1.AttentionService, in its shapes. Rows behind q_lengths are zeros.
struct ReferenceOutputs {
  std::vector<double> query;              // [batch, q_length, num_heads, head_dim], after LayerNorm, before the scale
  std::vector<double> key;                // [batch, kv_length, num_kv_heads, head_dim], after LayerNorm
  std::vector<double> value;              // [batch, kv_length, num_kv_heads, value_head_dim]
  std::vector<double> scores;             // [batch, num_heads, q_length, kv_length]
  std::vector<double> capped_scores;      // the same shape; the scores where there is no soft cap
  std::vector<double> masked_scores;      // the same shape, −∞ where hidden
  std::vector<double> attn_weights;       // the same shape
  std::vector<double> mean_attn_weights;  // [batch, q_length, kv_length]
  std::vector<double> log_sum_exp;        // [batch, num_heads, q_length], −∞ where no key is visible
  std::vector<double> context;            // [batch, q_length, num_heads, value_head_dim]
  std::vector<double> output;             // [batch, q_length, out_features]; without projections the context
  int64_t empty_rows = 0;                 // of [batch, num_heads, q_length]: those that see no key
};

// The whole layer in float64, one plain loop for each sum of the formula: what every other implementation is held to.
// What stands at a hidden key enters no sum. REQUIRES: sizes of `inputs` and `parameters` agree.
ReferenceOutputs ReferenceAttention(const server::LayerParameters& parameters, const ReferenceInputs& inputs);

// The same without projections. REQUIRES: sizes of `inputs` and `heads` agree.
ReferenceOutputs ReferenceAttention(const server::HeadShape& heads, const ReferenceInputs& inputs);

}  // namespace attention::test
