#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "server/engine/attention_call.h"
#include "server/engine/layer.h"

namespace attention::test {

// The input of the reference. The batch axes are folded into one.
struct ReferenceInputs {
  int64_t batch = 0;
  int64_t q_length = 0;
  int64_t kv_length = 0;
  // [batch, q_length, in_features] and so on; without a layer [batch, length, heads, head_dim].
  std::vector<double> inputs_q = {};
  std::vector<double> inputs_k = {};
  std::vector<double> inputs_v = {};
  std::vector<uint8_t> mask = {};       // [batch, num_heads, q_length, kv_length], 1 = visible; empty: all
  std::vector<double> bias = {};        // the same shape, −∞ hides; empty: none
  std::vector<int64_t> q_lengths = {};  // [batch]; empty: q_length for every sequence
  std::optional<double> scale = {};     // default: 1/√head_dim
  std::optional<double> softcap = {};   // default: none
  // kError has the effect of kUniform.
  server::EmptyRowRule empty_rows = server::EmptyRowRule::kUniform;
  // Rounds both operands of each product to bfloat16, as compute_dtype BFLOAT16 does.
  bool bfloat16 = false;
};

// Every line of the formula in the comment of attention.v1.AttentionService. Rows after q_lengths are zeros.
struct ReferenceOutputs {
  std::vector<double> query;              // [batch, q_length, num_heads, head_dim], after LayerNorm, before the scale
  std::vector<double> key;                // [batch, kv_length, num_kv_heads, head_dim], after LayerNorm
  std::vector<double> value;              // [batch, kv_length, num_kv_heads, value_head_dim]
  std::vector<double> scores;             // [batch, num_heads, q_length, kv_length]
  std::vector<double> capped_scores;      // the same shape; equal to the scores without a soft cap
  std::vector<double> masked_scores;      // the same shape, −∞ where hidden
  std::vector<double> attn_weights;       // the same shape
  std::vector<double> mean_attn_weights;  // [batch, q_length, kv_length]
  std::vector<double> log_sum_exp;        // [batch, num_heads, q_length], −∞ where no key is visible
  std::vector<double> context;            // [batch, q_length, num_heads, value_head_dim]
  std::vector<double> output;             // [batch, q_length, out_features]; without a layer, the context
  int64_t empty_rows = 0;                 // number of rows of [batch, num_heads, q_length] that see no key
};

// Computes the whole layer in float64, with one plain loop for each sum of the formula. Other implementations are
// tested against it. Values at hidden keys enter no sum. REQUIRES: the sizes of `inputs` and `parameters` agree.
ReferenceOutputs ReferenceAttention(const server::LayerParameters& parameters, const ReferenceInputs& inputs);

// The same without a layer. REQUIRES: the sizes of `inputs` and `heads` agree.
ReferenceOutputs ReferenceAttention(const server::HeadShape& heads, const ReferenceInputs& inputs);

}  // namespace attention::test
