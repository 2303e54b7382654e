#include "server/weights/repository.h"

#include <spdlog/spdlog.h>

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "server/checkpoint/field_error.h"
#include "server/checkpoint/names.h"
#include "server/checkpoint/sha256.h"
#include "server/runtime/catch_exceptions.h"
#include "server/weights/blob_store.h"
#include "server/weights/blob_upload.h"
#include "server/weights/catalog.h"
#include "server/weights/checkpoint_edits.h"
#include "server/weights/checkpoint_loads.h"
#include "server/weights/folder_watch.h"
#include "server/weights/operator_files.h"
#include "server/weights/version_loader.h"

namespace attention::server {
namespace {

using Asked = CheckpointLoads::Asked;

absl::Status CheckNumHeads(absl::string_view field, int64_t num_heads) {
  if (num_heads >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", num_heads, ", wanted 0 or a number of heads"));
}

absl::Status CheckUpload(const UploadOptions& options) {
  if (auto status = CheckName("header.checkpoint", options.checkpoint); !status.ok()) return status;
  if (options.bytes < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("header.bytes: ", options.bytes, ", wanted the size of the file, at least 1"));
  }
  if (!options.sha256.empty() && !IsSha256(options.sha256)) {
    return absl::InvalidArgumentError(absl::StrCat("header.sha256: wanted 64 lower case hexadecimal digits, found \"",
                                                   EscapeForMessage(options.sha256), "\""));
  }
  return CheckNumHeads("header.num_heads", options.num_heads);
}

// Runs a change, and turns what it throws into a status.
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

class Repository::Impl {
 public:
  Impl(RepositoryOptions options, Registry* registry)
      : options_(std::move(options)),
        registry_(registry),
        store_(options_.dir, options_.before_disk_step),
        catalog_(&store_, registry),
        loader_({options_.dir, options_.max_weight_bytes, options_.compute_self_test, options_.now}, &store_, registry),
        loads_(&catalog_, &loader_, &store_, registry),
        edits_(options_.dir, &catalog_, &loader_, &store_) {}

  absl::StatusOr<StartReport> LoadAll();
  absl::StatusOr<std::unique_ptr<Upload>> BeginUpload(const UploadOptions& options);
  void PollFolder();

  absl::StatusOr<Published> Load(const std::string& checkpoint, int64_t num_heads) {
    absl::MutexLock lock(&change_mu_);
    return loads_.Load(checkpoint, num_heads, Asked::kByCaller);
  }

  absl::StatusOr<int64_t> Unload(const std::string& checkpoint) {
    absl::MutexLock lock(&change_mu_);
    auto version = edits_.Unload(checkpoint);
    GiveBackMemory(version.status());
    return version;
  }

  absl::StatusOr<std::vector<int64_t>> Delete(const std::string& checkpoint, int64_t version) {
    absl::MutexLock lock(&change_mu_);
    auto versions = edits_.Delete(checkpoint, version);
    GiveBackMemory(versions.status());
    return versions;
  }

  absl::StatusOr<int64_t> SetAlias(const std::string& checkpoint, const AliasChange& change) {
    absl::MutexLock lock(&change_mu_);
    return edits_.SetAlias(checkpoint, change);
  }

 private:
  absl::StatusOr<Published> Publish(const UploadOptions& options, const UploadedFile& uploaded) {
    absl::MutexLock lock(&change_mu_);
    return loads_.Publish(options, uploaded);
  }

  void GiveBackMemory(const absl::Status& dropped) const {
    if (dropped.ok() && options_.give_back_memory != nullptr) options_.give_back_memory();
  }

  void ResumeAll(std::set<std::string>& served, std::set<std::string>& failed, StartReport& report);
  void TakeChange(const std::string& checkpoint);

  bool IsUnloaded(const std::string& checkpoint) const {
    const CatalogEntry entry = catalog_.Find(checkpoint);
    return !entry.manifest.loaded && !entry.manifest.versions.empty();
  }

  // In the order of construction; each uses only those above it.
  const RepositoryOptions options_;
  Registry* const registry_;
  absl::Mutex change_mu_;  // one change at a time; uploads write without it
  BlobStore store_;
  Catalog catalog_;
  const VersionLoader loader_;
  CheckpointLoads loads_;
  CheckpointEdits edits_;

  FolderWatch watch_;
  bool readable_ = true;  // so that a folder that cannot be read is logged once
};

// First what was acknowledged, so that no new file takes a name from it.
absl::StatusOr<Repository::StartReport> Repository::Impl::LoadAll() {
  absl::MutexLock lock(&change_mu_);
  StartReport report;
  if (options_.dir.empty()) return report;
  const absl::Time now = options_.now();
  auto files = FindOperatorFiles(options_.dir);
  if (!files.ok()) return files.status();
  const auto add_broken = [&](const std::string& name, const absl::Status& status) {
    spdlog::error("checkpoint {} is not served: {}", EscapeForMessage(name), status.ToString());
    report.broken.push_back(absl::StrCat(EscapeForMessage(name), ": ", status.message()));
  };
  if (auto status = store_.Open(); !status.ok()) add_broken(".attention", status);
  std::set<std::string> served, failed;
  ResumeAll(served, failed, report);
  for (const auto& [checkpoint, states] : *files) {
    absl::Status status = CheckName("checkpoint", checkpoint);
    if (status.ok() && IsUnloaded(checkpoint)) continue;
    if (status.ok()) status = loads_.Load(checkpoint, 0, Asked::kByItself).status();
    if (status.ok()) served.insert(checkpoint);
    if (absl::IsNotFound(status)) continue;  // it was deleted, or lies outside
    if (!status.ok() && !failed.contains(checkpoint)) add_broken(checkpoint, status);
  }
  for (const std::string& checkpoint : served) {
    spdlog::info("checkpoint {}: {} weight sets", checkpoint,
                 catalog_.Find(checkpoint).loaded.rbegin()->second.weight_sets.size());
  }
  report.loaded = static_cast<int>(served.size());
  watch_.Begin(*std::move(files), now);
  return report;
}

void Repository::Impl::ResumeAll(std::set<std::string>& served, std::set<std::string>& failed, StartReport& report) {
  const Manifest manifest = store_.manifest();
  for (const auto& [checkpoint, entry] : manifest.checkpoints) {
    if (auto status = edits_.RemoveDeletedFiles(checkpoint); !status.ok()) {
      spdlog::warn("checkpoint {}: deleted, but its file stays: {}", checkpoint, status.ToString());
    }
    if (!entry.loaded || entry.versions.empty()) continue;
    for (const absl::Status& status : loads_.Resume(checkpoint)) {
      report.broken.push_back(absl::StrCat(checkpoint, ": ", status.message()));
      failed.insert(checkpoint);
    }
    if (!catalog_.Find(checkpoint).loaded.empty()) served.insert(checkpoint);
  }
}

absl::StatusOr<std::unique_ptr<Upload>> Repository::Impl::BeginUpload(const UploadOptions& options) {
  auto file = store_.NewFile(options.bytes);
  if (!file.ok()) return file.status();
  auto mapping = FileMapping::Map((*file)->file(), options.bytes);
  if (!mapping.ok()) return mapping.status();
  const BlobUpload::Context context{.disk = &store_.disk(),
                                    .registry = registry_,
                                    .max_weight_bytes = options_.max_weight_bytes,
                                    .publish = [this](const UploadOptions& options, const UploadedFile& uploaded) {
                                      return Catch<Published>("publishing an upload",
                                                              [&] { return Publish(options, uploaded); });
                                    }};
  return std::make_unique<BlobUpload>(options, context, *std::move(file), *std::move(mapping));
}

void Repository::Impl::PollFolder() {
  absl::MutexLock lock(&change_mu_);
  if (options_.dir.empty()) return;
  auto files = FindOperatorFiles(options_.dir);
  if (!files.ok()) {
    if (std::exchange(readable_, false)) spdlog::error("{}", files.status().ToString());
    return;
  }
  readable_ = true;
  for (const std::string& checkpoint : watch_.Update(*std::move(files), options_.now())) {
    if (CheckName("checkpoint", checkpoint).ok() && !IsUnloaded(checkpoint)) TakeChange(checkpoint);
  }
}

void Repository::Impl::TakeChange(const std::string& checkpoint) {
  if (FindOperatorFiles(options_.dir, checkpoint).empty()) {
    const absl::Status status = loads_.ForgetFile(checkpoint);
    if (status.ok()) spdlog::info("checkpoint {}: its file went", checkpoint);
    if (!status.ok()) spdlog::error("checkpoint {}: its file went: {}", checkpoint, status.ToString());
    return;
  }
  const auto published = loads_.Load(checkpoint, 0, Asked::kByItself);
  if (!published.ok()) {
    spdlog::error("checkpoint {}: its file is not served: {}", checkpoint, published.status().ToString());
  } else if (!published->unchanged) {
    spdlog::info("checkpoint {}: version {}, {} weight sets", checkpoint, published->version,
                 published->weight_sets.size());
  }
}

Repository::Repository(RepositoryOptions options, Registry* registry)
    : impl_(std::make_unique<Impl>(std::move(options), registry)) {}

Repository::~Repository() = default;

absl::StatusOr<Repository::StartReport> Repository::LoadAll() {
  return Catch<StartReport>("loading the weights folder", [&] { return impl_->LoadAll(); });
}

absl::StatusOr<Published> Repository::LoadCheckpoint(absl::string_view checkpoint, const LoadOptions& options) {
  if (auto status = CheckName("checkpoint", checkpoint); !status.ok()) return status;
  if (auto status = CheckNumHeads("num_heads", options.num_heads); !status.ok()) return status;
  return Catch<Published>("loading a checkpoint",
                          [&] { return impl_->Load(std::string(checkpoint), options.num_heads); });
}

absl::StatusOr<std::unique_ptr<Upload>> Repository::BeginUpload(const UploadOptions& options) {
  if (auto status = CheckUpload(options); !status.ok()) return status;
  return Catch<std::unique_ptr<Upload>>("beginning an upload", [&] { return impl_->BeginUpload(options); });
}

absl::StatusOr<int64_t> Repository::Unload(absl::string_view checkpoint) {
  if (auto status = CheckName("checkpoint", checkpoint); !status.ok()) return status;
  return Catch<int64_t>("unloading a checkpoint", [&] { return impl_->Unload(std::string(checkpoint)); });
}

absl::StatusOr<std::vector<int64_t>> Repository::Delete(absl::string_view checkpoint, int64_t version) {
  if (auto status = CheckName("checkpoint", checkpoint); !status.ok()) return status;
  return Catch<std::vector<int64_t>>("deleting a checkpoint",
                                     [&] { return impl_->Delete(std::string(checkpoint), version); });
}

absl::StatusOr<int64_t> Repository::SetAlias(absl::string_view checkpoint, absl::string_view alias, int64_t version,
                                             std::optional<int64_t> expected) {
  if (auto status = CheckName("checkpoint", checkpoint); !status.ok()) return status;
  if (auto status = CheckAlias("alias", alias); !status.ok()) return status;
  return Catch<int64_t>("moving an alias", [&] {
    return impl_->SetAlias(std::string(checkpoint), {std::string(alias), version, expected});
  });
}

void Repository::PollFolder() {
  const absl::Status status = CatchExceptions("looking for changed checkpoints", [&] {
    impl_->PollFolder();
    return absl::OkStatus();
  });
}

}  // namespace attention::server
