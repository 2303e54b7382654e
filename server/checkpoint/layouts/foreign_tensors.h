#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/checkpoint/formats/tensor_map.h"
#include "server/checkpoint/layouts/layout.h"

namespace attention::server {

// Refuses a tensor below the PATH of a layer that changes the output of the layer but that the engine does not support.
// Ignoring it would give wrong results silently. `below` is the name of the tensor below PATH, with slashes.
//
// UNIMPLEMENTED, with the kind of the tensor, for these modules and tensors directly below PATH (or below
// PATH/module_path):
//   norms other than query_ln and key_ln of flax  q_norm, k_norm, v_norm, query_norm, key_norm, q_layernorm,
//                                                 k_layernorm, norm_q, norm_k, q_ln, k_ln, query_ln, key_ln,
//                                                 inner_attn_ln, attn_sub_norm
//   scores that depend on positions               relative_attention_bias, relative_position_bias_table, relpos_bias,
//                                                 relative_position_bias, distance_embedding, gru_rel_pos_const,
//                                                 gru_rel_pos_linear, pos_bias_u, pos_bias_v, linear_pos,
//                                                 continuous_position_bias_mlp
//   additional keys and values                    bias_k, bias_v (add_bias_kv of PyTorch), sinks
//   another scale, gates, other projections       logit_scale, c_attn, g_proj, query_global, key_global, value_global
// and for an adapter, lora_…, inside one of the projections.
//
// All other tensors are only unused: mask buffers (bias, masked_bias), rotary frequencies (inv_freq), norms around the
// layer. Rotary positions without tensors cannot be detected.
absl::Status CheckForeignTensor(const NamedTensor& tensor, absl::string_view below, const Layout& layout);

}  // namespace attention::server
