#include "server/weights/repository.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "server/checkpoint/field_error.h"
#include "server/checkpoint/names.h"
#include "server/checkpoint/sha256.h"
#include "server/runtime/catch_exceptions.h"

namespace attention::server {
namespace {

absl::Status CheckNumHeads(absl::string_view field, int64_t num_heads) {
  if (num_heads >= 0) return absl::OkStatus();
  return FieldError(field, "0 or more", num_heads);
}

absl::Status CheckUpload(const UploadOptions& options) {
  if (auto status = CheckName("header.checkpoint", options.checkpoint); !status.ok()) return status;
  if (options.bytes < 1) return FieldError("header.bytes", "at least 1", options.bytes);
  if (!options.sha256.empty() && !IsSha256(options.sha256)) {
    return FieldError("header.sha256", "64 lower case hexadecimal digits",
                      absl::StrCat("\"", EscapeForMessage(options.sha256), "\""));
  }
  return CheckNumHeads("header.num_heads", options.num_heads);
}

std::vector<std::string> NamesOf(const LoadedVersions& loaded) {
  std::set<std::string> names;
  for (const auto& [number, version] : loaded) {
    for (const WeightSetPtr& weight_set : version.weight_sets) names.insert(weight_set->name);
  }
  return {names.begin(), names.end()};
}

// The versions with blobs that a start loads, in the order in which Restore loads them.
std::vector<ManifestVersion> BlobsToLoad(const Manifest& manifest) {
  std::vector<ManifestVersion> blobs;
  for (const auto& [name, checkpoint] : manifest.checkpoints) {
    if (!checkpoint.loaded) continue;
    for (auto version = checkpoint.versions.rbegin(); version != checkpoint.versions.rend(); ++version) {
      if (version->second.blob) blobs.push_back(version->second);
    }
  }
  return blobs;
}

// Runs a change and converts exceptions to a status.
template <typename T>
absl::StatusOr<T> Catch(absl::string_view what, absl::FunctionRef<absl::StatusOr<T>()> change) {
  absl::StatusOr<T> result;
  const absl::Status status = CatchExceptions(what, [&] {
    result = change();
    return result.status();
  });
  if (!status.ok()) return status;
  return result;
}

}  // namespace

Repository::Repository(RepositoryOptions options, Registry* registry)
    : options_(std::move(options)),
      registry_(registry),
      loader_({.max_weight_bytes = options_.max_weight_bytes, .self_test_runner = options_.self_test_runner}, registry),
      store_(options_.dir, options_.max_weight_storage, options_.before_disk_step) {}

absl::StatusOr<Repository::StartReport> Repository::LoadAll() {
  return Catch<StartReport>("loading the weights folder", [&] {
    absl::MutexLock lock(&mu_);
    return LoadAllLocked();
  });
}

absl::StatusOr<Published> Repository::LoadCheckpoint(absl::string_view checkpoint, const LoadOptions& options) {
  if (auto status = CheckName("checkpoint", checkpoint); !status.ok()) return status;
  if (auto status = CheckNumHeads("num_heads", options.num_heads); !status.ok()) return status;
  return Catch<Published>("loading a checkpoint", [&] {
    absl::MutexLock lock(&mu_);
    return Load(std::string(checkpoint), options, Trigger::kCaller);
  });
}

absl::StatusOr<std::unique_ptr<Upload>> Repository::BeginUpload(const UploadOptions& options) {
  if (auto status = CheckUpload(options); !status.ok()) return status;
  return Catch<std::unique_ptr<Upload>>("beginning an upload", [&]() -> absl::StatusOr<std::unique_ptr<Upload>> {
    auto file = store_.NewFile(options.bytes);
    if (!file.ok()) return file.status();
    return std::make_unique<Upload>(options, this, *std::move(file));
  });
}

absl::StatusOr<Published> Repository::Publish(const Upload& upload) {
  return Catch<Published>("publishing an upload", [&] {
    absl::MutexLock lock(&mu_);
    return PublishLocked(upload);
  });
}

absl::StatusOr<int64_t> Repository::Unload(absl::string_view checkpoint) {
  if (auto status = CheckName("checkpoint", checkpoint); !status.ok()) return status;
  auto version = Catch<int64_t>("unloading a checkpoint", [&] {
    absl::MutexLock lock(&mu_);
    return UnloadLocked(std::string(checkpoint));
  });
  if (version.ok()) GiveBackMemory();
  return version;
}

absl::StatusOr<Deleted> Repository::Delete(absl::string_view checkpoint, int64_t version) {
  if (auto status = CheckName("checkpoint", checkpoint); !status.ok()) return status;
  auto deleted = Catch<Deleted>("deleting a checkpoint", [&] {
    absl::MutexLock lock(&mu_);
    return DeleteLocked(std::string(checkpoint), version);
  });
  if (deleted.ok()) GiveBackMemory();
  return deleted;
}

absl::StatusOr<int64_t> Repository::SetAlias(absl::string_view checkpoint, absl::string_view alias, int64_t version,
                                             std::optional<int64_t> expected) {
  if (auto status = CheckName("checkpoint", checkpoint); !status.ok()) return status;
  if (auto status = CheckAlias("alias", alias); !status.ok()) return status;
  return Catch<int64_t>("moving an alias", [&] {
    absl::MutexLock lock(&mu_);
    return SetAliasLocked(std::string(checkpoint), {std::string(alias), version, expected});
  });
}

void Repository::PollFolder() {
  const absl::Status status = CatchExceptions("looking for changed checkpoints", [&] {
    absl::MutexLock lock(&mu_);
    PollFolderLocked();
    return absl::OkStatus();
  });
}

void Repository::GiveBackMemory() const {
  if (options_.give_back_memory != nullptr) options_.give_back_memory();
}

// Acknowledged versions first, so that no new file takes one of their names.
absl::StatusOr<Repository::StartReport> Repository::LoadAllLocked() {
  StartReport report;
  if (options_.dir.empty()) return report;
  const absl::Time now = options_.now();
  auto content = FindOperatorFiles(options_.dir);
  if (!content.ok()) return content.status();
  LogSkipped(std::move(content->skipped));
  FolderWatch::Files files = std::move(content->files);
  const auto add_broken = [&](const std::string& name, const absl::Status& status) {
    spdlog::error("checkpoint {} is not served: {}", EscapeForMessage(name), status.ToString());
    report.broken.push_back(absl::StrCat(EscapeForMessage(name), ": ", status.message()));
  };
  if (auto status = store_.Open(); !status.ok()) add_broken(".attention", status);
  Store::Batch batch(&store_);
  std::set<std::string> served, failed;
  ResumeAll(served, failed, report);
  for (const auto& [checkpoint, states] : files) {
    absl::Status status = CheckName("checkpoint", checkpoint);
    if (status.ok() && IsUnloaded(checkpoint)) continue;
    if (status.ok()) status = Load(checkpoint, {.replace = true}, Trigger::kAutomatic).status();
    if (status.ok()) served.insert(checkpoint);
    if (absl::IsNotFound(status)) continue;  // removed meanwhile, or being deleted
    if (!status.ok() && !failed.contains(checkpoint)) add_broken(checkpoint, status);
  }
  if (auto status = batch.Write(); !status.ok()) add_broken(".attention", status);
  for (const std::string& checkpoint : served) {
    spdlog::info("checkpoint {}: {} weight sets", checkpoint,
                 Find(checkpoint).loaded.rbegin()->second.weight_sets.size());
  }
  report.loaded = static_cast<int>(served.size());
  watch_.Begin(std::move(files), now);
  return report;
}

void Repository::ResumeAll(std::set<std::string>& served, std::set<std::string>& failed, StartReport& report) {
  const Manifest manifest = store_.manifest();
  store_.BeginPrefetch(BlobsToLoad(manifest));
  const absl::Cleanup end_prefetch = [this] { store_.EndPrefetch(); };
  for (const auto& [checkpoint, entry] : manifest.checkpoints) {
    if (auto status = RemoveDeletedFiles(checkpoint); !status.ok()) {
      spdlog::warn("checkpoint {}: deleted, but its file cannot be removed: {}", checkpoint, status.ToString());
    }
    if (!entry.loaded || entry.versions.empty()) continue;
    for (const absl::Status& status : Resume(checkpoint)) {
      report.broken.push_back(absl::StrCat(checkpoint, ": ", status.message()));
      failed.insert(checkpoint);
    }
    if (!Find(checkpoint).loaded.empty()) served.insert(checkpoint);
  }
}

void Repository::PollFolderLocked() {
  if (options_.dir.empty()) return;
  auto content = FindOperatorFiles(options_.dir);
  if (!content.ok()) {
    if (std::exchange(folder_readable_, false)) spdlog::error("{}", content.status().ToString());
    return;
  }
  folder_readable_ = true;
  LogSkipped(std::move(content->skipped));
  Store::Batch batch(&store_);
  for (const std::string& checkpoint : watch_.Update(std::move(content->files), options_.now())) {
    if (auto status = CheckName("checkpoint", checkpoint); !status.ok()) {
      spdlog::error("checkpoint {} is not served: {}", EscapeForMessage(checkpoint), status.ToString());
    } else if (!IsUnloaded(checkpoint)) {
      LoadChangedFile(checkpoint);
    }
  }
  if (auto status = batch.Write(); !status.ok()) spdlog::error("{}", status.ToString());
}

void Repository::LogSkipped(std::map<std::string, std::string> skipped) {
  for (const auto& [path, reason] : skipped) {
    const auto known = skipped_.find(path);
    if (known != skipped_.end() && known->second == reason) continue;
    spdlog::warn("weights folder: {} is skipped: {}", EscapeForMessage(path), reason);
  }
  skipped_ = std::move(skipped);
}

void Repository::LoadChangedFile(const std::string& checkpoint) {
  if (FindOperatorFiles(options_.dir, checkpoint).empty()) {
    const absl::Status status = ForgetFile(checkpoint);
    if (status.ok()) spdlog::info("checkpoint {}: its file was removed", checkpoint);
    if (!status.ok()) spdlog::error("checkpoint {}: its file was removed: {}", checkpoint, status.ToString());
    return;
  }
  const auto published = Load(checkpoint, {.replace = true}, Trigger::kAutomatic);
  if (!published.ok()) {
    spdlog::error("checkpoint {}: its file is not served: {}", checkpoint, published.status().ToString());
  } else if (!published->unchanged) {
    spdlog::info("checkpoint {}: version {}, {} weight sets", checkpoint, published->version,
                 published->weight_sets.size());
  }
}

bool Repository::IsUnloaded(const std::string& checkpoint) const {
  const CheckpointState state = Find(checkpoint);
  return !state.manifest.loaded && !state.manifest.versions.empty();
}

CheckpointState Repository::Find(absl::string_view checkpoint) const {
  CheckpointState state{.name = std::string(checkpoint), .manifest = store_.EntryOf(checkpoint), .loaded = {}};
  if (const auto found = loaded_.find(checkpoint); found != loaded_.end()) state.loaded = found->second;
  return state;
}

absl::Status Repository::Commit(CheckpointState state) {
  state.DropUnneededVersions(options_.keep_versions);
  if (!state.manifest.loaded) state.loaded.clear();
  if (auto status = registry_->CheckNames(state.name, NamesOf(state.loaded)); !status.ok()) return status;
  if (auto status = store_.Save(state.name, state.manifest); !status.ok()) return status;

  ServedCheckpoint served{{}, {state.manifest.aliases.begin(), state.manifest.aliases.end()}};
  for (const auto& [number, version] : state.loaded) served.versions[number] = version.weight_sets;
  // Destroyed after the registry has dropped its references, so that freeing weights does not delay readers.
  const LoadedVersions previous = std::exchange(loaded_[state.name], std::move(state.loaded));
  return registry_->Serve(state.name, std::move(served));
}

}  // namespace attention::server
