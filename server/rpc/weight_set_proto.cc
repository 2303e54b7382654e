#include "server/rpc/weight_set_proto.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/checkpoint/field_error.h"
#include "server/checkpoint/names.h"
#include "server/rpc/validation/tensor_validation.h"

namespace attention::server {

void FillInfo(const ServedWeightSet& served, v1::WeightSetInfo* info) {
  const WeightSet& weight_set = *served.weight_set;
  const LayerShape& shape = weight_set.layer->shape();
  info->set_name(weight_set.name);
  info->set_version(weight_set.version);
  info->set_checkpoint(weight_set.checkpoint);
  info->set_in_features(shape.in_features);
  info->set_in_k_features(shape.in_k_features);
  info->set_in_v_features(shape.in_v_features);
  info->set_num_heads(shape.heads.num_heads);
  info->set_num_kv_heads(shape.heads.num_kv_heads);
  info->set_head_dim(shape.heads.head_dim);
  info->set_value_head_dim(shape.heads.value_head_dim);
  info->set_out_features(shape.out_features);
  info->set_bytes(weight_set.layer->bytes());
  info->set_layout(weight_set.layout);
  info->mutable_aliases()->Add(served.aliases.begin(), served.aliases.end());
  for (const ParameterInfo& parameter : weight_set.parameters) {
    if (absl::StartsWith(parameter.name, "query_ln")) info->set_normalize_qk(true);
    v1::ParameterInfo* filled = info->add_parameters();
    filled->set_name(parameter.name);
    filled->set_dtype(DTypeToProto(parameter.dtype));
    filled->mutable_shape()->Add(parameter.shape.begin(), parameter.shape.end());
  }
}

void FillLoaded(const Published& published, v1::LoadCheckpointResponse* response) {
  response->set_checkpoint(published.checkpoint);
  response->set_version(published.version);
  response->set_sha256(published.sha256);
  response->set_format(published.format);
  response->set_unchanged(published.unchanged);
  for (const ServedWeightSet& served : published.weight_sets) FillInfo(served, response->add_weight_sets());
  response->mutable_unused_tensors()->Add(published.unused_tensors.begin(), published.unused_tensors.end());
}

std::string MakePageToken(const PageEnd& end) {
  return absl::WebSafeBase64Escape(absl::StrCat(end.version, " ", end.name));
}

absl::StatusOr<PageEnd> ParsePageToken(absl::string_view token) {
  std::string text;
  PageEnd end;
  bool good = absl::WebSafeBase64Unescape(token, &text);
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(text, absl::MaxSplits(' ', 1));
  good = good && absl::SimpleAtoi(parts.first, &end.version) && CheckName("page_token", parts.second).ok();
  end.name = std::string(parts.second);
  // Whoever writes a token himself might spell it in another way.
  if (good && MakePageToken(end) == token) return end;
  return absl::InvalidArgumentError(
      absl::StrCat("page_token: ", EscapeForMessage(token), " is none; wanted next_page_token of the page before"));
}

}  // namespace attention::server
