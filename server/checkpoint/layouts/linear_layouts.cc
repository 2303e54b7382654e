#include <utility>

#include "absl/strings/str_cat.h"
#include "server/checkpoint/field_error.h"
#include "server/checkpoint/layouts/layout.h"
#include "server/checkpoint/layouts/tensor_rules.h"

// Layouts whose kernels are matrices [out_features, in_features], as in torch.nn.Linear:
//   torch        torch.nn.MultiheadAttention: query, key and value in one matrix, or in three if their widths differ
//   bert         four torch.nn.Linear with the names of BERT
//   projections  four torch.nn.Linear with the names of most other models
namespace attention::server {
namespace {

constexpr absl::string_view kOthers = "the other projections of the layer";

int64_t OutFeatures(const ProjectionSources& projection) { return projection.kernel.end - projection.kernel.begin; }

int64_t InFeatures(const ProjectionSources& projection) { return projection.kernel.tensor->shape[1]; }

// Rows [begin, end) of a matrix as a kernel, whose shape SetHeads sets. REQUIRES: the matrix has two axes.
ParameterSource MatrixRows(const NamedTensor& matrix, int64_t begin, int64_t end) {
  return {.tensor = &matrix, .begin = begin, .end = end, .transposed = true, .shape = {}};
}

// A whole matrix as a kernel, and a vector or null as its bias. SetHeads sets their shapes.
absl::StatusOr<ProjectionSources> WholeMatrix(const NamedTensor& matrix, const NamedTensor* bias) {
  if (auto status = CheckAxes(matrix, 2, "out_features, in_features"); !status.ok()) return status;
  if (bias != nullptr) {
    if (auto status = CheckAxes(*bias, 1, "out_features"); !status.ok()) return status;
  }
  return ProjectionSources{MatrixRows(matrix, 0, matrix.shape[0]), WholeTensor(bias)};
}

absl::Status WrongRows(const ProjectionSources& projection, absl::string_view expected) {
  const NamedTensor& tensor = *projection.kernel.tensor;
  return FieldError(EscapeForMessage(tensor.name), expected,
                    absl::StrCat(OutFeatures(projection), " in shape ", ShapeString(tensor.shape)));
}

// Query rows determine head_dim, with it key rows determine num_kv_heads, and with it value rows value_head_dim.
absl::StatusOr<HeadShape> FindHeads(int64_t num_heads, const LayerTensors& layer) {
  HeadShape heads;
  heads.num_heads = num_heads;
  heads.head_dim = OutFeatures(layer.query) / num_heads;
  if (OutFeatures(layer.query) % num_heads != 0) {
    return WrongRows(layer.query, absl::StrCat("a multiple of num_heads ", num_heads, " as query rows"));
  }
  heads.num_kv_heads = OutFeatures(layer.key) / heads.head_dim;
  if (OutFeatures(layer.key) % heads.head_dim != 0 || heads.num_kv_heads == 0 || num_heads % heads.num_kv_heads != 0) {
    return WrongRows(
        layer.key, absl::StrCat("key rows for heads of ", heads.head_dim, ", as in ",
                                Described(*layer.query.kernel.tensor), ", whose number divides num_heads ", num_heads));
  }
  heads.value_head_dim = OutFeatures(layer.value) / heads.num_kv_heads;
  if (OutFeatures(layer.value) % heads.num_kv_heads != 0) {
    return WrongRows(layer.value, absl::StrCat("a multiple of the ", heads.num_kv_heads, " heads in ",
                                               Described(*layer.key.kernel.tensor), " as value rows"));
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
  if (!projection.bias || projection.bias.end - projection.bias.begin == OutFeatures(projection)) {
    return absl::OkStatus();
  }
  return CheckShape(*projection.bias.tensor, {OutFeatures(projection)}, Described(*projection.kernel.tensor));
}

// Splits the features of each projection into heads and sets the shapes of the parameters.
// INVALID_ARGUMENT if the sizes do not divide each other, or num_heads is unknown.
// REQUIRES: kernels and biases are from WholeMatrix or MatrixRows.
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
  layer.out.bias.shape = {OutFeatures(layer.out)};
  for (ProjectionSources* projection : {&layer.query, &layer.key, &layer.value}) {
    projection->kernel.shape = {InFeatures(*projection), projection->bias.shape[0], projection->bias.shape[1]};
  }
  layer.out.kernel.shape = {heads->num_heads, heads->value_head_dim, OutFeatures(layer.out)};
  return absl::OkStatus();
}

absl::Status OneOf(const NamedTensor& tensor, const NamedTensor& other) {
  return FieldError(EscapeForMessage(tensor.name), absl::StrCat("either this tensor or ", EscapeForMessage(other.name)),
                    "both");
}

// The parts of the layouts bert and projections. The last two are other names for kOut and kOutBias.
enum Part { kQuery, kKey, kValue, kOut, kQueryBias, kKeyBias, kValueBias, kOutBias, kOutProj, kOutProjBias };

constexpr absl::string_view kBertNames[] = {
    "self/query/weight", "self/key/weight", "self/value/weight", "output/dense/weight",
    "self/query/bias",   "self/key/bias",   "self/value/bias",   "output/dense/bias",
};

constexpr absl::string_view kProjectionNames[] = {
    "q_proj/weight", "k_proj/weight", "v_proj/weight", "o_proj/weight",   "q_proj/bias",
    "k_proj/bias",   "v_proj/bias",   "o_proj/bias",   "out_proj/weight", "out_proj/bias",
};

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
    if (auto status = parts.Require(linear.matrix, kOthers); !status.ok()) return status;
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
  if (parts[kOutProj] == nullptr) return ReadLinear(parts, {kOut, kOutBias}, num_heads, layer);
  if (parts[kOut] == nullptr) return ReadLinear(parts, {kOutProj, kOutProjBias}, num_heads, layer);
  return OneOf(*parts[kOut], *parts[kOutProj]);
}

namespace torch {

enum Part { kPacked, kQuery, kKey, kValue, kPackedBias, kOut, kOutBias };

constexpr absl::string_view kNames[] = {
    "in_proj_weight", "q_proj_weight",   "k_proj_weight", "v_proj_weight",
    "in_proj_bias",   "out_proj/weight", "out_proj/bias",
};

absl::Status CheckPresence(const LayerParts& parts) {
  for (const Part part : {kQuery, kKey, kValue}) {
    if (parts[kPacked] != nullptr && parts[part] != nullptr) return OneOf(*parts[part], *parts[kPacked]);
    if (parts[kPacked] != nullptr) continue;
    if (auto status = parts.Require(part, kOthers); !status.ok()) return status;
  }
  return parts.Require(kOut, kOthers);
}

absl::Status ReadPacked(const NamedTensor& packed, LayerTensors& layer) {
  constexpr absl::string_view kAxes = "3 · embed, embed";
  if (auto status = CheckAxes(packed, 2, kAxes); !status.ok()) return status;
  const int64_t embed = packed.shape[1];
  if (packed.shape[0] % 3 != 0 || packed.shape[0] / 3 != embed) {
    return WrongShape(packed, absl::StrCat("shape [", kAxes, "]"));
  }
  layer.query.kernel = MatrixRows(packed, 0, embed);
  layer.key.kernel = MatrixRows(packed, embed, 2 * embed);
  layer.value.kernel = MatrixRows(packed, 2 * embed, 3 * embed);
  return absl::OkStatus();
}

absl::Status ReadSeparate(const LayerParts& parts, LayerTensors& layer) {
  for (const auto& [part, projection] :
       {std::pair(kQuery, &layer.query), std::pair(kKey, &layer.key), std::pair(kValue, &layer.value)}) {
    absl::StatusOr<ProjectionSources> sources = WholeMatrix(*parts[part], nullptr);
    if (!sources.ok()) return sources.status();
    *projection = *std::move(sources);
  }
  return absl::OkStatus();
}

// One vector contains the biases of query, key and value, even if their matrices are separate.
absl::Status ReadPackedBias(const NamedTensor& bias, LayerTensors& layer) {
  if (auto status = CheckAxes(bias, 1, "out_features of query, key and value"); !status.ok()) return status;
  int64_t rows = 0;
  for (ProjectionSources* projection : {&layer.query, &layer.key, &layer.value}) {
    const int64_t end = rows + OutFeatures(*projection);
    projection->bias = {.tensor = &bias, .begin = rows, .end = end, .transposed = false, .shape = {}};
    rows = end;
  }
  return CheckShape(bias, {rows}, Described(*layer.query.kernel.tensor));
}

absl::Status Read(const LayerParts& parts, const absl::StatusOr<int64_t>& num_heads, LayerTensors& layer) {
  if (absl::Status status = CheckPresence(parts); !status.ok()) return status;
  const absl::Status read = parts[kPacked] != nullptr ? ReadPacked(*parts[kPacked], layer) : ReadSeparate(parts, layer);
  if (!read.ok()) return read;
  if (parts[kPackedBias] != nullptr) {
    if (absl::Status status = ReadPackedBias(*parts[kPackedBias], layer); !status.ok()) return status;
  }
  absl::StatusOr<ProjectionSources> out = WholeMatrix(*parts[kOut], parts[kOutBias]);
  if (!out.ok()) return out.status();
  layer.out = *std::move(out);
  return SetHeads(num_heads, layer);
}

}  // namespace torch
}  // namespace

const Layout kTorchLayout = {
    .name = "torch",
    .required = "in_proj_weight and out_proj.weight",
    .parts = {.names = torch::kNames},
    .anchors = 4,
    .read = torch::Read,
};

const Layout kBertLayout = {
    .name = "bert",
    .required = "self.query.weight, self.key.weight, self.value.weight and output.dense.weight",
    .parts = {.names = kBertNames},
    .anchors = 3,
    .module_path = "self/",
    .read = ReadBert,
};

const Layout kProjectionsLayout = {
    .name = "projections",
    .required = "q_proj.weight, k_proj.weight, v_proj.weight and o_proj.weight",
    .parts = {.names = kProjectionNames},
    .anchors = 3,
    .read = ReadProjections,
};

}  // namespace attention::server
