#include "server/checkpoint/layouts/foreign_tensors.h"

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/checkpoint/field_error.h"

namespace attention::server {
namespace {

struct Kind {
  absl::string_view description;
  std::initializer_list<absl::string_view> names;
};

const Kind kKinds[] = {
    {"a norm other than flax's query_ln and key_ln",
     {"q_norm", "k_norm", "v_norm", "query_norm", "key_norm", "q_layernorm", "k_layernorm", "norm_q", "norm_k", "q_ln",
      "k_ln", "query_ln", "key_ln", "inner_attn_ln", "attn_sub_norm"}},
    {"a position-dependent part of the scores",
     {"relative_attention_bias", "relative_position_bias_table", "relative_position_bias", "relpos_bias",
      "distance_embedding", "gru_rel_pos_const", "gru_rel_pos_linear", "pos_bias_u", "pos_bias_v", "linear_pos",
      "continuous_position_bias_mlp"}},
    {"an additional key or value", {"bias_k", "bias_v", "sinks"}},
    {"a scale, a gate or a further projection",
     {"logit_scale", "c_attn", "g_proj", "query_global", "key_global", "value_global"}},
};

absl::Status Refuse(const NamedTensor& tensor, absl::string_view kind) {
  return absl::UnimplementedError(absl::StrCat(EscapeForMessage(tensor.name), ": ", kind,
                                               ", which changes the output of the layer, is not supported"));
}

// The module of a parameter: "q_proj/" of "q_proj/weight", "" of "in_proj_weight".
absl::string_view Module(absl::string_view part) {
  const size_t slash = part.rfind('/');
  return slash == absl::string_view::npos ? "" : part.substr(0, slash + 1);
}

bool IsAdapter(absl::string_view below, const Layout& layout) {
  return absl::c_any_of(layout.parts.names, [below](absl::string_view part) {
    absl::string_view inside = below;
    return !Module(part).empty() && absl::ConsumePrefix(&inside, Module(part)) && absl::StartsWith(inside, "lora_");
  });
}

}  // namespace

absl::Status CheckForeignTensor(const NamedTensor& tensor, absl::string_view below, const Layout& layout) {
  if (IsAdapter(below, layout)) return Refuse(tensor, "an adapter (merge it into the weights first)");
  absl::ConsumePrefix(&below, layout.module_path);
  const absl::string_view first = below.substr(0, below.find('/'));
  for (const Kind& kind : kKinds) {
    if (absl::c_linear_search(kind.names, first)) return Refuse(tensor, kind.description);
  }
  return absl::OkStatus();
}

}  // namespace attention::server
