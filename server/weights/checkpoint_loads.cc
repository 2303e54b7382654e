#include "server/weights/checkpoint_loads.h"

#include <spdlog/spdlog.h>

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/checkpoint/field_error.h"

namespace attention::server {
namespace {

// One text for all that cannot be had, so that it tells nothing about what lies outside.
absl::Status NoSuchCheckpoint(const std::string& checkpoint) {
  return absl::NotFoundError(absl::StrCat("checkpoint: the weights folder has no ", EscapeForMessage(checkpoint),
                                          ".safetensors, .msgpack or .npz"));
}

// What is stored keeps the heads that it came with.
absl::Status CheckStoredHeads(const CatalogEntry& entry, int64_t num_heads) {
  if (num_heads == 0 || entry.manifest.versions.empty()) return absl::OkStatus();
  const auto& [number, version] = *entry.manifest.versions.rbegin();
  if (version.num_heads == num_heads) return absl::OkStatus();
  const std::string stored = version.num_heads == 0 ? "none" : absl::StrCat(version.num_heads);
  return absl::InvalidArgumentError(absl::StrCat("num_heads: wanted ", num_heads, ", but version ", number,
                                                 " of checkpoint ", EscapeForMessage(entry.name), " was uploaded with ",
                                                 stored, "; upload it again"));
}

void LogBroken(const std::vector<absl::Status>& broken) {
  for (const absl::Status& status : broken) spdlog::error("not served: {}", status.ToString());
}

// True if the file holds what was last taken from it.
bool WasTaken(const CatalogEntry& entry, const FoundFile& file, int64_t num_heads) {
  const std::optional<ManifestFile>& taken = entry.manifest.file;
  return taken && taken->sha256 == file.sha256 && (num_heads == 0 || taken->num_heads == num_heads);
}

// True if only the operator's file holds the highest version.
bool DependsOnFile(const CatalogEntry& entry) {
  return !entry.manifest.versions.empty() && !entry.manifest.versions.rbegin()->second.blob;
}

}  // namespace

absl::StatusOr<Published> CheckpointLoads::Load(const std::string& checkpoint, int64_t num_heads, Asked asked) {
  CatalogEntry entry = catalog_->Find(checkpoint);
  const auto file = loader_->FindFile(entry);
  if (!file.ok()) return file.status();
  const size_t served = entry.loaded.size();
  if (served > 0 && !*file && DependsOnFile(entry)) return NoSuchCheckpoint(checkpoint);
  entry.manifest.loaded = true;
  const std::vector<absl::Status> broken = loader_->Restore(entry, file);
  bool unchanged = served > 0 && entry.loaded.size() == served;
  if (*file) {
    const bool again = asked == Asked::kByCaller && (served > 0 || entry.loaded.empty());
    const bool taken = WasTaken(entry, **file, num_heads);
    const std::optional<int64_t> wanted_heads = num_heads == 0 ? std::nullopt : std::optional(num_heads);
    if (!entry.IsHighest((*file)->sha256, wanted_heads) && (!taken || again)) {
      if (auto status = AddFile(entry, **file, num_heads); !status.ok()) return status;
      unchanged = false;
    } else if (!taken) {
      num_heads = entry.manifest.versions.rbegin()->second.num_heads;
    } else {
      num_heads = entry.manifest.file->num_heads;
    }
    entry.manifest.file = {.sha256 = (*file)->sha256, .num_heads = num_heads, .identity = (*file)->identity};
  }
  LogBroken(broken);
  if (entry.loaded.empty() && broken.empty()) return NoSuchCheckpoint(checkpoint);
  if (!*file) {
    if (auto status = CheckStoredHeads(entry, num_heads); !status.ok()) return status;
  }
  // Of what was served before nothing is better now.
  if (!broken.empty() && (entry.loaded.empty() || (unchanged && asked == Asked::kByCaller))) return broken.back();
  return Commit(std::move(entry), unchanged);
}

absl::Status CheckpointLoads::AddFile(CatalogEntry& entry, const FoundFile& file, int64_t num_heads) const {
  ManifestVersion version;
  version.sha256 = file.sha256;
  version.bytes = file.open.identity.bytes;
  version.num_heads = num_heads;
  if (auto status = loader_->Add(entry, std::move(version), file.bytes()); !status.ok()) return status;
  if (file.open.IsUnchanged()) return absl::OkStatus();
  return absl::AbortedError(
      absl::StrCat("checkpoint ", EscapeForMessage(entry.name), ": its file was written to while it was read"));
}

std::vector<absl::Status> CheckpointLoads::Resume(const std::string& checkpoint) {
  CatalogEntry entry = catalog_->Find(checkpoint);
  absl::StatusOr<std::optional<FoundFile>> file = std::optional<FoundFile>();
  if (DependsOnFile(entry)) file = loader_->FindFile(entry);
  std::vector<absl::Status> broken = loader_->Restore(entry, file);
  LogBroken(broken);
  if (auto status = catalog_->Commit(std::move(entry)); !status.ok()) broken.push_back(std::move(status));
  return broken;
}

absl::StatusOr<Published> CheckpointLoads::Publish(const UploadOptions& options, const UploadedFile& uploaded) {
  CatalogEntry entry = catalog_->Find(options.checkpoint);
  const bool served = !entry.loaded.empty();
  if (!served) {
    // Not loaded only to be dropped.
    if (!entry.HasHighest(uploaded.sha256, options.num_heads)) entry.DropHighestWithoutAlias();
    LogBroken(loader_->Restore(entry, loader_->FindFile(entry)));
  }
  entry.manifest.loaded = true;
  if (entry.IsHighest(uploaded.sha256, options.num_heads)) {
    ManifestVersion& highest = entry.manifest.versions.rbegin()->second;
    // The operator's file, which alone held it, may go.
    if (!highest.blob) {
      if (auto status = store_->Keep(uploaded.file, highest); !status.ok()) return status;
      highest.blob = true;
    }
    return Commit(std::move(entry), served);
  }
  ManifestVersion version;
  version.sha256 = uploaded.sha256;
  version.bytes = options.bytes;
  version.num_heads = options.num_heads;
  version.blob = true;
  if (auto status = loader_->Add(entry, std::move(version), uploaded.bytes, uploaded.parsed); !status.ok()) {
    return status;
  }
  const ManifestVersion& added = entry.manifest.versions.rbegin()->second;
  if (auto status = store_->Keep(uploaded.file, added); !status.ok()) return status;
  return Commit(std::move(entry), false);
}

absl::Status CheckpointLoads::ForgetFile(const std::string& checkpoint) {
  CatalogEntry entry = catalog_->Find(checkpoint);
  entry.manifest.file.reset();
  if (DependsOnFile(entry)) {
    const int64_t number = entry.manifest.versions.rbegin()->first;
    entry.manifest.versions.erase(number);
    entry.loaded.erase(number);
  }
  return catalog_->Commit(std::move(entry));
}

absl::StatusOr<Published> CheckpointLoads::Commit(CatalogEntry entry, bool unchanged) {
  const std::string checkpoint = entry.name;
  if (auto status = catalog_->Commit(std::move(entry)); !status.ok()) return status;
  return Describe(checkpoint, unchanged);
}

absl::StatusOr<Published> CheckpointLoads::Describe(const std::string& checkpoint, bool unchanged) const {
  const CatalogEntry entry = catalog_->Find(checkpoint);
  const auto& [number, loaded] = *entry.loaded.rbegin();
  const ManifestVersion& version = entry.manifest.versions.at(number);
  Published published{.checkpoint = checkpoint,
                      .version = number,
                      .sha256 = version.sha256,
                      .format = version.format,
                      .unchanged = unchanged,
                      .weight_sets = {},
                      .unused_tensors = loaded.unused_tensors};
  for (const WeightSetPtr& weight_set : loaded.weight_sets) {
    auto served = registry_->Describe(weight_set->name, number);
    if (!served.ok()) return served.status();
    published.weight_sets.push_back(*std::move(served));
  }
  return published;
}

}  // namespace attention::server
