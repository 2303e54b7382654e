#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/checkpoint/formats/tensor_map.h"
#include "server/checkpoint/layouts/layout.h"

namespace attention::server {

// Refuses a tensor that would change the result of the layer in whose PATH it stands, but that the engine does not
// compute with, rather than leave it out silently. `below` is the tensor's name below PATH, with slashes.
//
// UNIMPLEMENTED, with what it is, for these names right below PATH (below PATH/self too in the bert layout):
//   norms other than flax's query_ln and key_ln   q_norm, k_norm, v_norm, query_norm, key_norm, q_layernorm,
//                                                 k_layernorm, norm_q, norm_k, q_ln, k_ln, query_ln, key_ln,
//                                                 inner_attn_ln, attn_sub_norm
//   scores that depend on positions               relative_attention_bias, relative_position_bias_table, relpos_bias,
//                                                 relative_position_bias, distance_embedding, gru_rel_pos_const,
//                                                 gru_rel_pos_linear, pos_bias_u, pos_bias_v, linear_pos,
//                                                 continuous_position_bias_mlp
//   more keys and values than the input's         bias_k, bias_v (add_bias_kv of PyTorch), sinks
//   another scale, gates, other projections       logit_scale, c_attn, g_proj, query_global, key_global, value_global
// and for an adapter, lora_…, within one of the projections.
//
// Everything else is left to the caller as unused: buffers of masks (bias, masked_bias), rotary frequencies (inv_freq),
// norms around the layer. Rotary positions have no tensors, and are not seen.
absl::Status CheckForeignTensor(const NamedTensor& tensor, absl::string_view below, const Layout& layout);

}  // namespace attention::server
