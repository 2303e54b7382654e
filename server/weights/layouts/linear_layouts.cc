// Layers of four modules torch.nn.Linear, under the names that BERT has and under those of most others.

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/weights/formats/echo.h"
#include "server/weights/layouts/layout.h"
#include "server/weights/layouts/matrix_layer.h"

namespace attention::server {
namespace {

enum Part { kQuery, kKey, kValue, kOut, kQueryBias, kKeyBias, kValueBias, kOutBias, kOtherOut, kOtherOutBias };

constexpr absl::string_view kBertNames[] = {
    "self/query/weight", "self/key/weight", "self/value/weight", "output/dense/weight",
    "self/query/bias",   "self/key/bias",   "self/value/bias",   "output/dense/bias",
};

constexpr absl::string_view kProjectionNames[] = {
    "q_proj/weight", "k_proj/weight", "v_proj/weight", "o_proj/weight",   "q_proj/bias",
    "k_proj/bias",   "v_proj/bias",   "o_proj/bias",   "out_proj/weight", "out_proj/bias",
};

// `out` and its bias stand for kOut and kOutBias.
absl::Status ReadLinear(const LayerParts& parts, std::pair<Part, Part> out, const absl::StatusOr<int64_t>& num_heads,
                        LayerTensors& layer) {
  struct Linear {
    Part matrix, bias;
    ProjectionSources& projection;
  };
  const Linear all[] = {{kQuery, kQueryBias, layer.query},
                        {kKey, kKeyBias, layer.key},
                        {kValue, kValueBias, layer.value},
                        {out.first, out.second, layer.out}};
  for (const Linear& linear : all) {
    if (auto status = parts.Require(linear.matrix, "the other projections of the layer"); !status.ok()) return status;
  }
  for (const Linear& linear : all) {
    absl::StatusOr<ProjectionSources> sources = WholeMatrix(*parts[linear.matrix], parts[linear.bias]);
    if (!sources.ok()) return sources.status();
    linear.projection = *std::move(sources);
  }
  return SetHeads(num_heads, layer);
}

absl::Status ReadBert(const LayerParts& parts, const absl::StatusOr<int64_t>& num_heads, LayerTensors& layer) {
  return ReadLinear(parts, {kOut, kOutBias}, num_heads, layer);
}

absl::Status ReadProjections(const LayerParts& parts, const absl::StatusOr<int64_t>& num_heads, LayerTensors& layer) {
  if (parts[kOtherOut] == nullptr) return ReadLinear(parts, {kOut, kOutBias}, num_heads, layer);
  if (parts[kOut] == nullptr) return ReadLinear(parts, {kOtherOut, kOtherOutBias}, num_heads, layer);
  return absl::InvalidArgumentError(absl::StrCat(Echo(parts[kOut]->name), ": found beside ",
                                                 Echo(parts[kOtherOut]->name), ", wanted one of the two"));
}

}  // namespace

const Layout kBertLayout = {"bert", {kBertNames}, 3, ReadBert};
const Layout kProjectionsLayout = {"projections", {kProjectionNames}, 3, ReadProjections};

}  // namespace attention::server
