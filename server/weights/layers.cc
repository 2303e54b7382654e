#include "server/weights/layers.h"

#include <array>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/weights/formats/echo.h"
#include "server/weights/names.h"

namespace attention::server {
namespace {

constexpr absl::string_view kProjections[] = {"query", "key", "value", "out"};

// The tensors below one PATH that carry the names of a layer.
struct Group {
  std::array<ProjectionTensors, 4> projections;  // in the order of kProjections

  // Many other modules have an "out", so that one alone makes no layer.
  bool IsLayer() const {
    return projections[0].kernel != nullptr || projections[1].kernel != nullptr || projections[2].kernel != nullptr;
  }
};

// By PATH as it stands in the file, with the slash that follows it.
using Groups = std::map<std::string, Group>;

// Where a tensor of that name belongs: the PATH with its slash, and the place in the group; nothing if it is no
// parameter of a layer.
struct Place {
  absl::string_view path;
  size_t projection;
  bool is_bias;
};

std::optional<Place> FindPlace(absl::string_view name) {
  const bool is_bias = absl::EndsWith(name, "/bias");
  if (!absl::ConsumeSuffix(&name, is_bias ? "/bias" : "/kernel")) return std::nullopt;
  for (size_t i = 0; i < std::size(kProjections); ++i) {
    absl::string_view path = name;
    if (!absl::ConsumeSuffix(&path, kProjections[i]) || !(path.empty() || absl::EndsWith(path, "/"))) continue;
    return Place{path, i, is_bias};
  }
  return std::nullopt;
}

Groups GroupByPath(const TensorMap& tensors) {
  Groups groups;
  for (const NamedTensor& tensor : tensors.tensors) {
    const std::optional<Place> place = FindPlace(tensor.name);
    if (!place) continue;
    ProjectionTensors& projection = groups[std::string(place->path)].projections[place->projection];
    (place->is_bias ? projection.bias : projection.kernel) = &tensor;
  }
  return groups;
}

std::string LayerName(absl::string_view checkpoint, absl::string_view path) {
  absl::ConsumePrefix(&path, "params/");
  absl::ConsumeSuffix(&path, "/");
  return path.empty() ? std::string(checkpoint) : absl::StrCat(checkpoint, "/", absl::AsciiStrToLower(path));
}

absl::Status Wrong(const NamedTensor& tensor, absl::string_view found, absl::string_view wanted) {
  return absl::InvalidArgumentError(absl::StrCat(Echo(tensor.name), ": ", found, ", wanted ", wanted));
}

absl::Status WrongShape(const NamedTensor& tensor, absl::string_view wanted) {
  return Wrong(tensor, absl::StrCat("shape ", ShapeString(tensor.shape)), wanted);
}

// What holds for every parameter by itself.
absl::Status CheckTensor(const NamedTensor& tensor) {
  if (!IsFloat(tensor.dtype)) {
    return Wrong(tensor, absl::StrCat("dtype ", DTypeName(tensor.dtype)), "float32, bfloat16, float16 or float64");
  }
  if (absl::c_any_of(tensor.shape, [](int64_t size) { return size < 1; })) {
    return WrongShape(tensor, "sizes of at least 1");
  }
  const std::optional<int64_t> bytes = ByteCount(tensor.shape, tensor.dtype);
  if (bytes && static_cast<uint64_t>(*bytes) == tensor.data.size()) return absl::OkStatus();
  return WrongShape(tensor, absl::StrCat("one of ", tensor.data.size(), " bytes"));
}

absl::Status CheckShape(const NamedTensor& tensor, const Shape& wanted, const NamedTensor& because) {
  if (tensor.shape == wanted) return absl::OkStatus();
  return WrongShape(
      tensor, absl::StrCat(ShapeString(wanted), " to go with ", Echo(because.name), " ", ShapeString(because.shape)));
}

absl::Status CheckPresence(const std::string& path, const Group& group, const TensorMap& tensors) {
  for (size_t i = 0; i < std::size(kProjections); ++i) {
    if (group.projections[i].kernel != nullptr) continue;
    return absl::InvalidArgumentError(absl::StrCat(Echo(absl::StrCat(path, kProjections[i], "/kernel")),
                                                   ": missing, wanted with the other kernels of the layer"));
  }
  for (const absl::string_view norm : {"query_ln/scale", "key_ln/scale"}) {
    const std::string name = absl::StrCat(path, norm);
    if (tensors.Find(name) == nullptr) continue;
    return absl::UnimplementedError(
        absl::StrCat(Echo(name), ": layers that normalize queries and keys (normalize_qk) are not served"));
  }
  return absl::OkStatus();
}

absl::Status CheckKernels(const LayerTensors& layer) {
  for (const ProjectionTensors* projection : {&layer.query, &layer.key, &layer.value, &layer.out}) {
    if (absl::Status status = CheckTensor(*projection->kernel); !status.ok()) return status;
    if (projection->kernel->shape.size() == 3) continue;
    return WrongShape(*projection->kernel, projection == &layer.out ? "3 axes: num_heads, head_dim, out_features"
                                                                    : "3 axes: in_features, num_heads, head_dim");
  }
  const NamedTensor& query = *layer.query.kernel;
  for (const NamedTensor* kernel : {layer.key.kernel, layer.value.kernel}) {
    const Shape wanted = {kernel->shape[0], query.shape[1], query.shape[2]};
    if (absl::Status status = CheckShape(*kernel, wanted, query); !status.ok()) return status;
  }
  const Shape wanted = {query.shape[1], query.shape[2], layer.out.kernel->shape[2]};
  return CheckShape(*layer.out.kernel, wanted, query);
}

// REQUIRES: CheckKernels passed.
absl::Status CheckBiases(const LayerTensors& layer) {
  for (const ProjectionTensors* projection : {&layer.query, &layer.key, &layer.value, &layer.out}) {
    if (projection->bias == nullptr) continue;
    if (absl::Status status = CheckTensor(*projection->bias); !status.ok()) return status;
    const Shape& kernel = projection->kernel->shape;
    const Shape wanted = projection == &layer.out ? Shape{kernel[2]} : Shape{kernel[1], kernel[2]};
    if (absl::Status status = CheckShape(*projection->bias, wanted, *projection->kernel); !status.ok()) return status;
  }
  return absl::OkStatus();
}

LayerShape ShapeOf(const LayerTensors& layer) {
  const Shape& query = layer.query.kernel->shape;
  return {.in_features = query[0],
          .in_k_features = layer.key.kernel->shape[0],
          .in_v_features = layer.value.kernel->shape[0],
          .num_heads = query[1],
          .head_dim = query[2],
          .out_features = layer.out.kernel->shape[2]};
}

std::vector<ParameterInfo> ParametersOf(const Group& group, size_t path_length) {
  std::vector<ParameterInfo> parameters;
  for (const ProjectionTensors& projection : group.projections) {
    for (const NamedTensor* tensor : {projection.kernel, projection.bias}) {
      if (tensor != nullptr) parameters.push_back({tensor->name.substr(path_length), tensor->dtype, tensor->shape});
    }
  }
  absl::c_sort(parameters, [](const ParameterInfo& a, const ParameterInfo& b) { return a.name < b.name; });
  return parameters;
}

absl::StatusOr<LayerTensors> MakeLayer(const std::string& path, const Group& group, const std::string& name,
                                       const TensorMap& tensors) {
  if (absl::Status status = CheckPresence(path, group, tensors); !status.ok()) return status;
  LayerTensors layer;
  layer.name = name;
  std::tie(layer.query, layer.key, layer.value, layer.out) = std::tuple_cat(group.projections);
  if (absl::Status status = CheckKernels(layer); !status.ok()) return status;
  if (absl::Status status = CheckBiases(layer); !status.ok()) return status;
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
    absl::StatusOr<LayerTensors> layer = MakeLayer(path, group, LayerName(checkpoint, path), tensors);
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
  return parameters;
}

}  // namespace attention::server
