#include "server/weights/checkpoint_loader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/checkpoint/field_error.h"
#include "server/runtime/catch_exceptions.h"

namespace attention::server {
namespace {

absl::Status WithCheckpoint(const std::string& checkpoint, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("checkpoint ", EscapeForMessage(checkpoint), ": ", status.message()));
}

// Float64 takes twice as much as the float32 that is made of it.
uint64_t MaxInflatedBytes(int64_t max_weight_bytes) { return 2 * static_cast<uint64_t>(max_weight_bytes); }

absl::Status Parse(absl::Span<const std::byte> file, const ParseOptions& options, ParsedCheckpoint& parsed) {
  const auto format = RecogniseFormat(file.first(std::min(file.size(), kFormatBytes)), file.size());
  if (!format.ok()) return format.status();
  auto tensors = ParseCheckpoint(*format, file, MaxInflatedBytes(options.max_weight_bytes));
  if (!tensors.ok()) return tensors.status();
  parsed.format = *format;
  parsed.tensors = *std::move(tensors);
  auto layers = FindLayers(options.checkpoint, parsed.tensors, {.num_heads = options.num_heads});
  if (!layers.ok()) return layers.status();
  parsed.layers = *std::move(layers);
  return absl::OkStatus();
}

absl::StatusOr<WeightSetPtr> PackLayer(const LayerTensors& tensors, const VersionName& name,
                                       const ComputeSelfTest& compute) {
  auto layer = Layer::Pack(ReadParameters(tensors));
  if (!layer.ok()) return layer.status();
  if (auto status = RunSelfTest(tensors, **layer, compute); !status.ok()) return status;
  auto weight_set = std::make_shared<WeightSet>();
  weight_set->name = tensors.name;
  weight_set->version = name.version;
  weight_set->checkpoint = name.checkpoint;
  weight_set->layer = *std::move(layer);
  weight_set->layout = tensors.layout;
  weight_set->parameters = tensors.parameters;
  return WeightSetPtr(std::move(weight_set));
}

}  // namespace

std::vector<std::string> ParsedCheckpoint::names() const {
  std::vector<std::string> names;
  for (const LayerTensors& layer : layers.layers) names.push_back(layer.name);
  return names;
}

int64_t ParsedCheckpoint::bytes() const {
  int64_t bytes = 0;
  for (const LayerTensors& layer : layers.layers) bytes += Float32Bytes(layer.parameters);
  return bytes;
}

absl::StatusOr<ParsedCheckpoint> ReadHeader(absl::Span<const std::byte> file, const ParseOptions& options) {
  ParsedCheckpoint parsed;
  const absl::Status status = CatchExceptions("reading a checkpoint", [&] { return Parse(file, options, parsed); });
  if (!status.ok()) return WithCheckpoint(options.checkpoint, status);
  return parsed;
}

absl::StatusOr<LoadedVersion> PackLayers(const ParsedCheckpoint& parsed, const VersionName& name,
                                         const ComputeSelfTest& compute) {
  LoadedVersion loaded;
  loaded.unused_tensors = parsed.layers.unused_tensors;
  const absl::Status status = CatchExceptions("packing a checkpoint", [&] {
    for (const LayerTensors& layer : parsed.layers.layers) {
      auto weight_set = PackLayer(layer, name, compute);
      if (!weight_set.ok()) return weight_set.status();
      loaded.weight_sets.push_back(*std::move(weight_set));
    }
    return absl::OkStatus();
  });
  if (!status.ok()) return WithCheckpoint(name.checkpoint, status);
  return loaded;
}

LoadedVersion WithVersion(const LoadedVersion& loaded, int64_t version) {
  LoadedVersion renamed{{}, loaded.unused_tensors};
  for (const WeightSetPtr& weight_set : loaded.weight_sets) {
    auto copy = std::make_shared<WeightSet>(*weight_set);
    copy->version = version;
    renamed.weight_sets.push_back(std::move(copy));
  }
  return renamed;
}

}  // namespace attention::server
