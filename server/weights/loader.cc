#include "server/weights/loader.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/checkpoint/field_error.h"
#include "server/checkpoint/layouts/loaded_layer.h"
#include "server/checkpoint/names.h"
#include "server/runtime/catch_exceptions.h"
#include "server/weights/weight_sum.h"

namespace attention::server {
namespace {

absl::Status Prefixed(const std::string& prefix, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(prefix, ": ", status.message()));
}

std::string CheckpointPrefix(const std::string& checkpoint) {
  return absl::StrCat("checkpoint ", EscapeForMessage(checkpoint));
}

// Limit of the bytes of a file that are in memory at once. Files of training contain more than weights, so a low limit
// of weights does not exclude small ones.
uint64_t MaxFileBytes(int64_t max_weight_bytes) {
  constexpr int64_t kSmallFile = 64 << 20;
  return static_cast<uint64_t>(std::max(max_weight_bytes, kSmallFile));
}

// Bytes of its tensors, which the format has checked against the size of the file.
int64_t SelfTestBytes(const SelfTestTensors& test) {
  int64_t bytes = 0;
  for (const NamedTensor* tensor : {test.inputs_q, test.inputs_k, test.inputs_v, test.mask, test.output}) {
    if (tensor != nullptr) bytes += *ByteCount(tensor->shape, tensor->dtype);
  }
  return bytes;
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

LoadedVersion WithVersion(const LoadedVersion& loaded, int64_t version) {
  LoadedVersion renumbered{{}, loaded.unused_tensors};
  for (const WeightSetPtr& weight_set : loaded.weight_sets) {
    auto copy = std::make_shared<WeightSet>(*weight_set);
    copy->version = version;
    renumbered.weight_sets.push_back(std::move(copy));
  }
  return renumbered;
}

absl::StatusOr<ParsedCheckpoint> Loader::Parse(const std::string& checkpoint, const ByteSource& file,
                                               int64_t num_heads) const {
  ParsedCheckpoint parsed;
  const absl::Status status = CatchExceptions("reading a checkpoint", [&] {
    if (auto whole = CheckNotShard(checkpoint); !whole.ok()) return whole;
    const auto format = RecogniseFormat(file);
    if (!format.ok()) return format.status();
    auto tensors = (*format)->describe(file, MaxFileBytes(options_.max_weight_bytes));
    if (!tensors.ok()) return tensors.status();
    parsed.format = *format;
    parsed.tensors = *std::move(tensors);
    auto layers = FindLayers(checkpoint, parsed.tensors, {.num_heads = num_heads});
    if (!layers.ok()) return layers.status();
    parsed.layers = *std::move(layers);
    return absl::OkStatus();
  });
  if (!status.ok()) return Prefixed(CheckpointPrefix(checkpoint), status);
  return parsed;
}

absl::Status Loader::CheckFits(const std::string& checkpoint, const ParsedCheckpoint& parsed,
                               const LoadedVersions& kept) const {
  if (auto status = registry_->CheckNames(checkpoint, parsed.names()); !status.ok()) return status;
  WeightSum of_kept;
  for (const auto& [number, version] : kept) {
    for (const WeightSetPtr& weight_set : version.weight_sets) of_kept.Add(*weight_set);
  }
  for (const LayerTensors& layer : parsed.layers.layers) {
    if (!layer.self_test || SelfTestBytes(*layer.self_test) <= options_.max_weight_bytes) continue;
    return absl::ResourceExhaustedError(absl::StrCat(
        CheckpointPrefix(checkpoint), ": self-test of weight set ", EscapeForMessage(layer.name), ": expected at most ",
        options_.max_weight_bytes, " bytes (--max-weight-bytes), got ", SelfTestBytes(*layer.self_test)));
  }
  const int64_t others = registry_->BytesOfOthers(checkpoint) + of_kept.bytes();
  const int64_t available = options_.max_weight_bytes - others;
  if (parsed.bytes() <= available) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      CheckpointPrefix(checkpoint), ": expected at most ", std::max<int64_t>(available, 0), " bytes of weights, got ",
      parsed.bytes(), "; --max-weight-bytes is ", options_.max_weight_bytes, " and other weight sets take ", others));
}

absl::StatusOr<LoadedVersion> Loader::Pack(const std::string& checkpoint, int64_t version,
                                           const ParsedCheckpoint& parsed) const {
  LoadedVersion loaded;
  loaded.unused_tensors = parsed.layers.unused_tensors;
  const absl::Status status = CatchExceptions("packing a checkpoint", [&] {
    for (const LayerTensors& tensors : parsed.layers.layers) {
      auto layer = PackLayer(tensors, parsed.tensors);
      if (!layer.ok()) return layer.status();
      loaded.weight_sets.push_back(std::make_shared<const WeightSet>(WeightSet{.name = tensors.name,
                                                                               .version = version,
                                                                               .checkpoint = checkpoint,
                                                                               .layer = *std::move(layer),
                                                                               .layout = tensors.layout,
                                                                               .parameters = tensors.parameters}));
    }
    return absl::OkStatus();
  });
  if (!status.ok()) return Prefixed(CheckpointPrefix(checkpoint), status);
  return loaded;
}

absl::StatusOr<std::shared_ptr<const Layer>> Loader::PackLayer(const LayerTensors& layer,
                                                               const TensorMap& tensors) const {
  const absl::StatusOr<LoadedLayer> loaded = LoadLayer(layer, tensors);
  if (!loaded.ok()) return loaded.status();
  auto packed = Layer::Pack(ReadParameters(loaded->layer));
  if (!packed.ok() || !layer.self_test || options_.self_test_runner == nullptr) return packed;
  if (auto status = options_.self_test_runner->Run(*loaded->layer.self_test, **packed); !status.ok()) {
    return Prefixed(absl::StrCat("self-test of weight set ", EscapeForMessage(layer.name)), status);
  }
  return packed;
}

}  // namespace attention::server
