#include "server/weights/layers.h"

#include <array>
#include <map>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/weights/formats/echo.h"
#include "server/weights/layer_rules.h"
#include "server/weights/names.h"

namespace attention::server {
namespace {

// The parameters that a layer can have below its PATH.
enum Part {
  kQueryKernel,
  kQueryBias,
  kKeyKernel,
  kKeyBias,
  kValueKernel,
  kValueBias,
  kOutKernel,
  kOutBias,
  kQueryNorm,
  kKeyNorm,
  kQueryNormBias,  // known to be refused
  kKeyNormBias,
};

constexpr absl::string_view kPartNames[] = {
    "query/kernel", "query/bias", "key/kernel",     "key/bias",     "value/kernel",  "value/bias",
    "out/kernel",   "out/bias",   "query_ln/scale", "key_ln/scale", "query_ln/bias", "key_ln/bias",
};

// The tensors below one PATH that carry the names of a layer's parts, by Part; null: there is none.
struct Group {
  std::array<const NamedTensor*, std::size(kPartNames)> parts = {};

  // Many other modules have an "out", so that one alone makes no layer.
  bool IsLayer() const {
    return parts[kQueryKernel] != nullptr || parts[kKeyKernel] != nullptr || parts[kValueKernel] != nullptr;
  }
};

// By PATH as it stands in the file, with the slash that follows it.
using Groups = std::map<std::string, Group>;

// Where a tensor of that name belongs: the PATH with its slash, and the part.
struct Place {
  absl::string_view path;
  size_t part;
};

// Nothing if it is no part of a layer.
std::optional<Place> FindPlace(absl::string_view name) {
  for (size_t i = 0; i < std::size(kPartNames); ++i) {
    absl::string_view path = name;
    if (absl::ConsumeSuffix(&path, kPartNames[i]) && (path.empty() || absl::EndsWith(path, "/"))) return Place{path, i};
  }
  return std::nullopt;
}

Groups GroupByPath(const TensorMap& tensors) {
  Groups groups;
  for (const NamedTensor& tensor : tensors.tensors) {
    const std::optional<Place> place = FindPlace(tensor.name);
    if (place) groups[std::string(place->path)].parts[place->part] = &tensor;
  }
  return groups;
}

std::string LayerName(absl::string_view checkpoint, absl::string_view path) {
  absl::ConsumePrefix(&path, "params/");
  absl::ConsumeSuffix(&path, "/");
  return path.empty() ? std::string(checkpoint) : absl::StrCat(checkpoint, "/", absl::AsciiStrToLower(path));
}

absl::Status Missing(const std::string& path, Part part, absl::string_view with) {
  return absl::InvalidArgumentError(
      absl::StrCat(Echo(absl::StrCat(path, kPartNames[part])), ": missing, wanted with ", with));
}

absl::Status CheckPresence(const std::string& path, const Group& group) {
  for (const Part kernel : {kQueryKernel, kKeyKernel, kValueKernel, kOutKernel}) {
    if (group.parts[kernel] == nullptr) return Missing(path, kernel, "the other kernels of the layer");
  }
  for (const auto& [norm, other] : {std::pair(kQueryNorm, kKeyNorm), std::pair(kKeyNorm, kQueryNorm)}) {
    if (group.parts[norm] == nullptr && group.parts[other] != nullptr) return Missing(path, norm, kPartNames[other]);
  }
  for (const Part bias : {kQueryNormBias, kKeyNormBias}) {
    if (group.parts[bias] == nullptr) continue;
    return absl::InvalidArgumentError(absl::StrCat(Echo(group.parts[bias]->name),
                                                   ": found, wanted none: the LayerNorm of queries and keys "
                                                   "(normalize_qk) has a scale alone"));
  }
  return absl::OkStatus();
}

std::vector<ParameterInfo> ParametersOf(const Group& group, size_t path_length) {
  std::vector<ParameterInfo> parameters;
  for (const NamedTensor* tensor : group.parts) {
    if (tensor != nullptr) parameters.push_back({tensor->name.substr(path_length), tensor->dtype, tensor->shape});
  }
  absl::c_sort(parameters, [](const ParameterInfo& a, const ParameterInfo& b) { return a.name < b.name; });
  return parameters;
}

absl::StatusOr<LayerTensors> MakeLayer(const std::string& path, const Group& group, const std::string& name) {
  if (absl::Status status = CheckPresence(path, group); !status.ok()) return status;
  LayerTensors layer;
  layer.name = name;
  layer.query = {group.parts[kQueryKernel], group.parts[kQueryBias]};
  layer.key = {group.parts[kKeyKernel], group.parts[kKeyBias]};
  layer.value = {group.parts[kValueKernel], group.parts[kValueBias]};
  layer.out = {group.parts[kOutKernel], group.parts[kOutBias]};
  layer.query_ln = group.parts[kQueryNorm];
  layer.key_ln = group.parts[kKeyNorm];
  if (absl::Status status = CheckLayer(layer); !status.ok()) return status;
  if (absl::Status status = CheckName("weight set", name); !status.ok()) return status;
  layer.shape = ShapeOf(layer);
  layer.parameters = ParametersOf(group, path.size());
  return layer;
}

std::vector<float> ToFloats(const NamedTensor* tensor) {
  if (tensor == nullptr) return {};
  std::vector<float> values(tensor->data.size() / DTypeSize(tensor->dtype));
  ToFloat32(tensor->dtype, tensor->data.data(), values.size(), values.data());
  return values;
}

}  // namespace

int64_t Float32Bytes(absl::Span<const ParameterInfo> parameters) {
  int64_t bytes = 0;
  for (const ParameterInfo& parameter : parameters) bytes += *ByteCount(parameter.shape, DType::kFloat32);
  return bytes;
}

absl::StatusOr<CheckpointLayers> FindLayers(absl::string_view checkpoint, const TensorMap& tensors) {
  const Groups groups = GroupByPath(tensors);
  CheckpointLayers found;
  for (const auto& [path, group] : groups) {
    if (!group.IsLayer()) continue;
    absl::StatusOr<LayerTensors> layer = MakeLayer(path, group, LayerName(checkpoint, path));
    if (!layer.ok()) return layer.status();
    found.layers.push_back(*std::move(layer));
  }
  if (found.layers.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "no attention layer: wanted PATH/query/kernel, PATH/key/kernel, PATH/value/kernel and PATH/out/kernel, found ",
        tensors.tensors.size(), " tensors of other names"));
  }
  absl::c_sort(found.layers, [](const LayerTensors& a, const LayerTensors& b) { return a.name < b.name; });
  for (size_t i = 1; i < found.layers.size(); ++i) {
    if (found.layers[i].name != found.layers[i - 1].name) continue;
    return absl::InvalidArgumentError(absl::StrCat("duplicate weight set ", Echo(found.layers[i].name), ": from ",
                                                   Echo(found.layers[i - 1].query.kernel->name), " and ",
                                                   Echo(found.layers[i].query.kernel->name)));
  }
  for (const NamedTensor& tensor : tensors.tensors) {
    const std::optional<Place> place = FindPlace(tensor.name);
    if (!place || !groups.at(std::string(place->path)).IsLayer()) found.unused_tensors.push_back(tensor.name);
  }
  return found;
}

LayerParameters ReadParameters(const LayerTensors& layer) {
  LayerParameters parameters;
  parameters.shape = layer.shape;
  parameters.query_kernel = ToFloats(layer.query.kernel);
  parameters.query_bias = ToFloats(layer.query.bias);
  parameters.key_kernel = ToFloats(layer.key.kernel);
  parameters.key_bias = ToFloats(layer.key.bias);
  parameters.value_kernel = ToFloats(layer.value.kernel);
  parameters.value_bias = ToFloats(layer.value.bias);
  parameters.out_kernel = ToFloats(layer.out.kernel);
  parameters.out_bias = ToFloats(layer.out.bias);
  parameters.query_ln_scale = ToFloats(layer.query_ln);
  parameters.key_ln_scale = ToFloats(layer.key_ln);
  return parameters;
}

}  // namespace attention::server
