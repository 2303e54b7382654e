#include "server/checkpoint/layouts/layers.h"

#include <map>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "server/checkpoint/field_error.h"
#include "server/checkpoint/layouts/foreign_tensors.h"
#include "server/checkpoint/layouts/layer_metadata.h"
#include "server/checkpoint/layouts/layout.h"
#include "server/checkpoint/names.h"

namespace attention::server {
namespace {

// The parts of one layer in one layout.
struct Candidate {
  const Layout* layout = nullptr;
  LayerParts parts;
};

// By the path with slashes.
using Candidates = std::map<std::string, Candidate, std::less<>>;

bool IsLayer(const LayerParts& parts, const Layout& layout) {
  for (size_t i = 0; i < layout.anchors; ++i) {
    if (parts[i] != nullptr) return true;
  }
  return false;
}

absl::StatusOr<Candidates> FindCandidates(const TensorMap& tensors) {
  Candidates candidates;
  for (const Layout* layout : Layouts()) {
    for (auto& [path, parts] : FindParts(tensors, layout->parts)) {
      if (!IsLayer(parts, *layout)) continue;
      if (!parts.unique().ok()) return parts.unique();
      const auto [other, is_new] = candidates.try_emplace(path, Candidate{layout, parts});
      if (is_new) continue;
      const Candidate& first = other->second;
      return FieldError(EscapeForMessage(first.parts.Present()[0]->name),
                        absl::StrCat("a layer in one layout, ", first.layout->name, " or ", layout->name),
                        absl::StrCat(EscapeForMessage(parts.Present()[0]->name), " as well"));
    }
  }
  return candidates;
}

std::vector<ParameterInfo> ParametersOf(const LayerParts& parts) {
  std::vector<ParameterInfo> parameters;
  for (const NamedTensor* tensor : parts.Present()) {
    parameters.push_back({tensor->name.substr(parts.path().size()), tensor->dtype, tensor->shape});
  }
  absl::c_sort(parameters, [](const ParameterInfo& a, const ParameterInfo& b) { return a.name < b.name; });
  return parameters;
}

LayerShape ShapeOf(const LayerTensors& layer) {
  const Shape &query = layer.query.kernel.shape, &key = layer.key.kernel.shape, &value = layer.value.kernel.shape;
  return {.in_features = query[0],
          .in_k_features = key[0],
          .in_v_features = value[0],
          .heads = {.num_heads = query[1], .num_kv_heads = key[1], .head_dim = query[2], .value_head_dim = value[2]},
          .out_features = layer.out.kernel.shape[2]};
}

absl::Status CheckUsable(const LayerParts& parts) {
  absl::Status status;
  for (const NamedTensor* tensor : parts.Present()) status.Update(tensor->usable);
  return status;
}

absl::StatusOr<LayerTensors> MakeLayer(absl::string_view checkpoint, const Candidate& candidate,
                                       const HeadCounts& head_counts) {
  const std::string& path = candidate.parts.path();
  if (absl::Status status = CheckUsable(candidate.parts); !status.ok()) return status;
  LayerTensors layer;
  layer.path = std::string(absl::StripSuffix(absl::StripPrefix(path, "params/"), "/"));
  layer.name =
      layer.path.empty() ? std::string(checkpoint) : absl::StrCat(checkpoint, "/", absl::AsciiStrToLower(layer.path));
  layer.layout = std::string(candidate.layout->name);
  if (auto status = candidate.layout->read(candidate.parts, head_counts.Of(path), layer); !status.ok()) return status;
  if (absl::Status status = CheckName("weight set", layer.name); !status.ok()) return status;
  layer.shape = ShapeOf(layer);
  layer.parameters = ParametersOf(candidate.parts);
  return layer;
}

absl::Status CheckUnique(const std::vector<LayerTensors>& layers) {
  for (size_t i = 1; i < layers.size(); ++i) {
    if (layers[i].name != layers[i - 1].name) continue;
    return FieldError(absl::StrCat("weight set ", EscapeForMessage(layers[i].name)), "one layer",
                      absl::StrCat(EscapeForMessage(layers[i - 1].query.kernel.tensor->name), " and ",
                                   EscapeForMessage(layers[i].query.kernel.tensor->name)));
  }
  return absl::OkStatus();
}

// Checks the tensor for each layer that its name is below.
// REQUIRES: the names of all candidates passed CheckName, so their paths are shorter than kLongestPath.
absl::Status CheckForeign(const NamedTensor& tensor, const Candidates& candidates) {
  constexpr size_t kLongestPath = 256;
  const std::string name = WithSlashes(tensor.name);
  for (size_t end = 0; end <= kLongestPath;) {
    const absl::string_view path = absl::string_view(name).substr(0, end);
    if (const auto found = candidates.find(path); found != candidates.end()) {
      absl::Status status = CheckForeignTensor(tensor, absl::string_view(name).substr(end), *found->second.layout);
      if (!status.ok()) return status;
    }
    const size_t slash = name.find('/', end);
    end = slash == std::string::npos ? slash : slash + 1;
  }
  return absl::OkStatus();
}

absl::Status NoLayer(const TensorMap& tensors) {
  const std::string layouts = absl::StrJoin(Layouts(), "; ", [](std::string* out, const Layout* layout) {
    absl::StrAppend(out, layout->required, " (", layout->name, ")");
  });
  return FieldError("tensors", absl::StrCat("an attention layer, which has below some PATH: ", layouts),
                    absl::StrCat(tensors.tensors.size(), " tensors of other names"));
}

// Finds the tensors that belong to no layer.
class UnusedTensors {
 public:
  explicit UnusedTensors(const TensorMap& tensors) : tensors_(tensors), used_(tensors.tensors.size()) {}

  void Use(const LayerParts& parts) {
    for (const NamedTensor* tensor : parts.Present()) used_[tensor - tensors_.tensors.data()] = true;
  }

  std::vector<const NamedTensor*> List() const {
    std::vector<const NamedTensor*> list;
    for (size_t i = 0; i < used_.size(); ++i) {
      if (!used_[i]) list.push_back(&tensors_.tensors[i]);
    }
    return list;
  }

 private:
  const TensorMap& tensors_;
  std::vector<bool> used_;
};

}  // namespace

int64_t Float32Bytes(absl::Span<const ParameterInfo> parameters) {
  int64_t bytes = 0;
  for (const ParameterInfo& parameter : parameters) bytes += *ByteCount(parameter.shape, DType::kFloat32);
  return bytes;
}

absl::StatusOr<CheckpointLayers> FindLayers(absl::string_view checkpoint, const TensorMap& tensors,
                                            const LayerOptions& options) {
  const absl::StatusOr<Candidates> candidates = FindCandidates(tensors);
  if (!candidates.ok()) return candidates.status();
  if (candidates->empty()) return NoLayer(tensors);
  const HeadCounts head_counts(tensors.metadata, options.num_heads);
  const PartsByPath self_tests = FindParts(tensors, kSelfTestNames);
  CheckpointLayers found;
  UnusedTensors unused(tensors);
  for (const auto& [path, candidate] : *candidates) {
    absl::StatusOr<LayerTensors> layer = MakeLayer(checkpoint, candidate, head_counts);
    if (!layer.ok()) return layer.status();
    unused.Use(candidate.parts);
    if (const auto self_test = self_tests.find(path); self_test != self_tests.end()) {
      unused.Use(self_test->second);
      if (absl::Status status = CheckUsable(self_test->second); !status.ok()) return status;
      if (auto status = ReadSelfTest(self_test->second, tensors.metadata, *layer); !status.ok()) return status;
    }
    found.layers.push_back(*std::move(layer));
  }
  absl::c_sort(found.layers, [](const LayerTensors& a, const LayerTensors& b) { return a.name < b.name; });
  if (absl::Status status = CheckUnique(found.layers); !status.ok()) return status;
  for (const NamedTensor* tensor : unused.List()) {
    if (absl::Status status = CheckForeign(*tensor, *candidates); !status.ok()) return status;
    found.unused_tensors.push_back(tensor->name);
  }
  return found;
}

LayerParameters ReadParameters(const LayerTensors& layer) {
  return {.shape = layer.shape,
          .query_kernel = ReadFloats(layer.query.kernel),
          .query_bias = ReadFloats(layer.query.bias),
          .key_kernel = ReadFloats(layer.key.kernel),
          .key_bias = ReadFloats(layer.key.bias),
          .value_kernel = ReadFloats(layer.value.kernel),
          .value_bias = ReadFloats(layer.value.bias),
          .out_kernel = ReadFloats(layer.out.kernel),
          .out_bias = ReadFloats(layer.out.bias),
          .query_ln_scale = ReadFloats(layer.query_ln),
          .key_ln_scale = ReadFloats(layer.key_ln)};
}

}  // namespace attention::server
