#include "server/weights/loader.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/checkpoint/field_error.h"
#include "server/runtime/catch_exceptions.h"

namespace attention::server {
namespace {

absl::Status Prefixed(const std::string& prefix, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(prefix, ": ", status.message()));
}

std::string CheckpointPrefix(const std::string& checkpoint) {
  return absl::StrCat("checkpoint ", EscapeForMessage(checkpoint));
}

// Twice the limit, because float64 tensors take twice the bytes of the float32 weights made from them.
uint64_t MaxInflatedBytes(int64_t max_weight_bytes) { return 2 * static_cast<uint64_t>(max_weight_bytes); }

// Sums the bytes of weight sets, counting each layer once.
class WeightSum {
 public:
  void Add(const WeightSet& weight_set) {
    if (counted_.insert(weight_set.layer.get()).second) bytes_ += Float32Bytes(weight_set.parameters);
  }
  int64_t bytes() const { return bytes_; }

 private:
  std::set<const Layer*> counted_;
  int64_t bytes_ = 0;
};

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

absl::StatusOr<ParsedCheckpoint> Loader::Parse(const std::string& checkpoint, absl::Span<const std::byte> file,
                                               int64_t num_heads) const {
  ParsedCheckpoint parsed;
  const absl::Status status = CatchExceptions("reading a checkpoint", [&] {
    const auto format = RecogniseFormat(file, file.size());
    if (!format.ok()) return format.status();
    auto tensors = (*format)->parse(file, MaxInflatedBytes(options_.max_weight_bytes));
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
  WeightSum others;
  for (const ServedWeightSet& served : registry_->List()) {
    if (served.weight_set->checkpoint != checkpoint) others.Add(*served.weight_set);
  }
  for (const auto& [number, version] : kept) {
    for (const WeightSetPtr& weight_set : version.weight_sets) others.Add(*weight_set);
  }
  const int64_t available = options_.max_weight_bytes - others.bytes();
  if (parsed.bytes() <= available) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat(CheckpointPrefix(checkpoint), ": expected at most ", std::max<int64_t>(available, 0),
                   " bytes of weights, got ", parsed.bytes(), "; --max-weight-bytes is ", options_.max_weight_bytes,
                   " and other weight sets take ", others.bytes()));
}

absl::StatusOr<LoadedVersion> Loader::Pack(const std::string& checkpoint, int64_t version,
                                           const ParsedCheckpoint& parsed) const {
  LoadedVersion loaded;
  loaded.unused_tensors = parsed.layers.unused_tensors;
  const absl::Status status = CatchExceptions("packing a checkpoint", [&] {
    for (const LayerTensors& tensors : parsed.layers.layers) {
      auto layer = PackLayer(tensors);
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

absl::StatusOr<std::shared_ptr<const Layer>> Loader::PackLayer(const LayerTensors& tensors) const {
  auto layer = Layer::Pack(ReadParameters(tensors));
  if (!layer.ok() || !tensors.self_test || options_.self_test_runner == nullptr) return layer;
  if (auto status = options_.self_test_runner->Run(*tensors.self_test, **layer); !status.ok()) {
    return Prefixed(absl::StrCat("self-test of weight set ", EscapeForMessage(tensors.name)), status);
  }
  return layer;
}

}  // namespace attention::server
