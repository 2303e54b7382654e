#include "server/checkpoint/layouts/linear_layouts.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/checkpoint/field_error.h"
#include "server/checkpoint/layouts/layout.h"
#include "server/checkpoint/layouts/tensor_rules.h"

// Layers of four modules torch.nn.Linear, under the names that BERT has and under those of most others.
namespace attention::server {
namespace {

int64_t FeaturesOut(const ProjectionSources& projection) { return projection.kernel.end - projection.kernel.begin; }

int64_t FeaturesIn(const ProjectionSources& projection) { return projection.kernel.tensor->shape[1]; }

absl::Status WrongRows(const ProjectionSources& projection, absl::string_view wanted) {
  return WrongShape(*projection.kernel.tensor,
                    absl::StrCat(wanted, " in the ", FeaturesOut(projection), " rows of this projection"));
}

absl::StatusOr<HeadShape> FindHeads(int64_t num_heads, const LayerTensors& layer) {
  HeadShape heads;
  heads.num_heads = num_heads;
  heads.head_dim = FeaturesOut(layer.query) / num_heads;
  if (FeaturesOut(layer.query) % num_heads != 0) {
    return WrongRows(layer.query, absl::StrCat("a multiple of num_heads ", num_heads));
  }
  heads.num_kv_heads = FeaturesOut(layer.key) / heads.head_dim;
  if (FeaturesOut(layer.key) % heads.head_dim != 0 || heads.num_kv_heads == 0 || num_heads % heads.num_kv_heads != 0) {
    return WrongRows(layer.key, absl::StrCat("a number of heads of ", heads.head_dim, " that divides num_heads ",
                                             num_heads, ", to go with ", Described(*layer.query.kernel.tensor), ","));
  }
  heads.value_head_dim = FeaturesOut(layer.value) / heads.num_kv_heads;
  if (FeaturesOut(layer.value) % heads.num_kv_heads != 0) {
    return WrongRows(layer.value, absl::StrCat("a multiple of the ", heads.num_kv_heads, " heads of ",
                                               Described(*layer.key.kernel.tensor)));
  }
  return heads;
}

absl::Status CheckOut(const HeadShape& heads, const LayerTensors& layer) {
  const NamedTensor& out = *layer.out.kernel.tensor;
  return CheckShape(
      out, {out.shape[0], heads.context_features()},
      absl::StrCat(heads.num_heads, " heads of ", heads.value_head_dim, " in ", Described(*layer.value.kernel.tensor)));
}

absl::Status CheckBias(const ProjectionSources& projection) {
  if (!projection.bias || projection.bias.end - projection.bias.begin == FeaturesOut(projection)) {
    return absl::OkStatus();
  }
  return CheckShape(*projection.bias.tensor, {FeaturesOut(projection)}, Described(*projection.kernel.tensor));
}

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
  return absl::InvalidArgumentError(absl::StrCat(EscapeForMessage(parts[kOut]->name), ": found beside ",
                                                 EscapeForMessage(parts[kOtherOut]->name), ", wanted one of the two"));
}

}  // namespace

absl::StatusOr<ProjectionSources> WholeMatrix(const NamedTensor& matrix, const NamedTensor* bias) {
  if (auto status = CheckAxes(matrix, 2, "features out, features in"); !status.ok()) return status;
  if (bias != nullptr) {
    if (auto status = CheckAxes(*bias, 1, "features out"); !status.ok()) return status;
  }
  return ProjectionSources{MatrixRows(matrix, 0, matrix.shape[0]), WholeTensor(bias)};
}

ParameterSource MatrixRows(const NamedTensor& matrix, int64_t begin, int64_t end) {
  return {.tensor = &matrix, .begin = begin, .end = end, .transposed = true, .shape = {}};
}

absl::Status SetHeads(const absl::StatusOr<int64_t>& num_heads, LayerTensors& layer) {
  if (!num_heads.ok()) return num_heads.status();
  const absl::StatusOr<HeadShape> heads = FindHeads(*num_heads, layer);
  if (!heads.ok()) return heads.status();
  if (absl::Status status = CheckOut(*heads, layer); !status.ok()) return status;
  for (const ProjectionSources* projection : {&layer.query, &layer.key, &layer.value, &layer.out}) {
    if (absl::Status status = CheckBias(*projection); !status.ok()) return status;
  }
  layer.query.bias.shape = {heads->num_heads, heads->head_dim};
  layer.key.bias.shape = {heads->num_kv_heads, heads->head_dim};
  layer.value.bias.shape = {heads->num_kv_heads, heads->value_head_dim};
  layer.out.bias.shape = {FeaturesOut(layer.out)};
  for (ProjectionSources* projection : {&layer.query, &layer.key, &layer.value}) {
    projection->kernel.shape = {FeaturesIn(*projection), projection->bias.shape[0], projection->bias.shape[1]};
  }
  layer.out.kernel.shape = {heads->num_heads, heads->value_head_dim, FeaturesOut(layer.out)};
  return absl::OkStatus();
}

const Layout kBertLayout = {"bert", {kBertNames}, 3, ReadBert};
const Layout kProjectionsLayout = {"projections", {kProjectionNames}, 3, ReadProjections};

}  // namespace attention::server
