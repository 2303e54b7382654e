#include "server/weights/weights_folder.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/engine/catch_exceptions.h"
#include "server/weights/formats/echo.h"
#include "server/weights/formats/file.h"
#include "server/weights/formats/safetensors.h"
#include "server/weights/names.h"

namespace attention::server {
namespace {

namespace fs = std::filesystem;

constexpr char kExtension[] = ".safetensors";

// One text for all that cannot be had, so that it tells nothing about what lies outside.
absl::Status NoSuchCheckpoint(const std::string& checkpoint) {
  return absl::NotFoundError(absl::StrCat("checkpoint: the weights folder has no ", Echo(checkpoint), kExtension));
}

absl::Status WithCheckpoint(const std::string& checkpoint, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("checkpoint ", Echo(checkpoint), ": ", status.message()));
}

// The real path of a checkpoint's file; empty if there is none within the folder.
std::string FileWithin(const std::string& dir, const std::string& checkpoint) {
  if (dir.empty() || absl::StrContains(checkpoint, "/.")) return "";
  std::error_code error;
  const fs::path folder = fs::canonical(dir, error);
  if (error) return "";
  const fs::path file = fs::canonical(folder / absl::StrCat(checkpoint, kExtension), error);
  if (error || !fs::is_regular_file(file, error)) return "";
  const bool within = std::mismatch(folder.begin(), folder.end(), file.begin(), file.end()).first == folder.end();
  return within ? file.string() : "";
}

// The checkpoints whose files stand below the folder, sorted.
std::vector<std::string> FindCheckpoints(const fs::path& dir, std::error_code& error) {
  std::vector<std::string> checkpoints;
  fs::recursive_directory_iterator it(dir, fs::directory_options::skip_permission_denied, error);
  while (!error && it != fs::recursive_directory_iterator()) {
    std::error_code ignored;
    const bool hidden = absl::StartsWith(it->path().filename().string(), ".");
    const bool folder = it->is_directory(ignored);
    if (hidden) it.disable_recursion_pending();
    if (!hidden && !folder && it->path().extension() == kExtension) {
      checkpoints.push_back(it->path().lexically_relative(dir).replace_extension().string());
    }
    it.increment(error);
  }
  std::sort(checkpoints.begin(), checkpoints.end());
  return checkpoints;
}

absl::StatusOr<WeightSet> MakeWeightSet(const LayerTensors& tensors) {
  absl::StatusOr<std::shared_ptr<const Layer>> layer = Layer::Pack(ReadParameters(tensors));
  if (!layer.ok()) return layer.status();
  WeightSet weight_set;
  weight_set.name = tensors.name;
  weight_set.layer = *std::move(layer);
  weight_set.parameters = tensors.parameters;
  return weight_set;
}

}  // namespace

WeightsFolder::WeightsFolder(std::string dir, const Limits& limits, Registry* registry)
    : dir_(std::move(dir)), limits_(limits), registry_(registry) {}

absl::StatusOr<WeightsFolder::Counts> WeightsFolder::LoadAll() {
  Counts counts;
  if (dir_.empty()) return counts;
  std::error_code error;
  const std::vector<std::string> checkpoints = FindCheckpoints(dir_, error);
  if (error) return absl::NotFoundError(absl::StrCat("weights folder ", dir_, ": cannot be read: ", error.message()));
  for (const std::string& checkpoint : checkpoints) {
    const absl::StatusOr<Loaded> loaded = LoadCheckpoint(checkpoint);
    if (loaded.ok()) {
      ++counts.loaded;
      spdlog::info("checkpoint {}: {} weight sets", checkpoint, loaded->weight_sets.size());
    } else {
      ++counts.broken;
      spdlog::error("checkpoint {} is not served: {}", Echo(checkpoint), loaded.status().ToString());
    }
  }
  return counts;
}

absl::StatusOr<WeightsFolder::Loaded> WeightsFolder::LoadCheckpoint(absl::string_view checkpoint) {
  if (absl::Status status = CheckName("checkpoint", checkpoint); !status.ok()) return status;
  absl::MutexLock lock(&load_mu_);
  Loaded loaded;
  const absl::Status status = CatchExceptions(absl::StrCat("loading checkpoint ", Echo(checkpoint), " failed"), [&] {
    absl::StatusOr<Loaded> result = Load(std::string(checkpoint));
    if (!result.ok()) return result.status();
    loaded = *std::move(result);
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return loaded;
}

absl::StatusOr<WeightsFolder::Loaded> WeightsFolder::Load(const std::string& checkpoint) {
  const std::string path = FileWithin(dir_, checkpoint);
  if (path.empty()) return NoSuchCheckpoint(checkpoint);
  const absl::StatusOr<MappedFile> file = MappedFile::Open(path, checkpoint);
  if (!file.ok()) {
    spdlog::warn("{}", file.status().ToString());
    return NoSuchCheckpoint(checkpoint);
  }
  const absl::StatusOr<TensorMap> tensors = ParseSafetensors(file->bytes());
  if (!tensors.ok()) return WithCheckpoint(checkpoint, tensors.status());
  absl::StatusOr<CheckpointLayers> found = FindLayers(checkpoint, *tensors);
  if (!found.ok()) return WithCheckpoint(checkpoint, found.status());
  if (absl::Status status = CheckLimit(checkpoint, *found); !status.ok()) return status;

  std::vector<WeightSet> weight_sets;
  for (const LayerTensors& layer : found->layers) {
    absl::StatusOr<WeightSet> weight_set = MakeWeightSet(layer);
    if (!weight_set.ok()) return WithCheckpoint(checkpoint, weight_set.status());
    weight_sets.push_back(*std::move(weight_set));
  }
  absl::StatusOr<std::vector<WeightSetPtr>> published = registry_->Publish(checkpoint, std::move(weight_sets));
  if (!published.ok()) return published.status();
  return Loaded{*std::move(published), std::move(found->unused_tensors)};
}

absl::Status WeightsFolder::CheckLimit(const std::string& checkpoint, const CheckpointLayers& layers) const {
  int64_t wanted = 0, others = 0;
  for (const LayerTensors& layer : layers.layers) wanted += Float32Bytes(layer.parameters);
  for (const WeightSetPtr& weight_set : registry_->List()) {
    if (weight_set->checkpoint != checkpoint) others += Float32Bytes(weight_set->parameters);
  }
  if (wanted <= limits_.max_weight_bytes - others) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("checkpoint ", Echo(checkpoint), ": takes ", wanted, " bytes beside the ", others,
                   " that others take, but --max-weight-bytes is ", limits_.max_weight_bytes));
}

}  // namespace attention::server
