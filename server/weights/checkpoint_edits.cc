#include "server/weights/checkpoint_edits.h"

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/checkpoint/field_error.h"

namespace attention::server {
namespace {

absl::Status NoSuchVersion(const CatalogEntry& entry, int64_t version) {
  const auto number = [](std::string* out, const auto& held) { absl::StrAppend(out, held.first); };
  return absl::NotFoundError(absl::StrCat("version: checkpoint ", EscapeForMessage(entry.name), " has no version ",
                                          version, ", only ", absl::StrJoin(entry.manifest.versions, ", ", number)));
}

absl::Status NoSuchCheckpoint(const CatalogEntry& entry) {
  return absl::NotFoundError(absl::StrCat("checkpoint: there is no checkpoint ", EscapeForMessage(entry.name)));
}

int64_t VersionOf(const CatalogEntry& entry, const std::string& alias) {
  const auto found = entry.manifest.aliases.find(alias);
  return found == entry.manifest.aliases.end() ? 0 : found->second;
}

}  // namespace

absl::StatusOr<int64_t> CheckpointEdits::Unload(const std::string& checkpoint) {
  CatalogEntry entry = catalog_->Find(checkpoint);
  if (entry.loaded.empty()) {
    return absl::NotFoundError(absl::StrCat("checkpoint \"", EscapeForMessage(checkpoint), "\" is not loaded"));
  }
  const int64_t highest = entry.loaded.rbegin()->first;
  entry.manifest.loaded = false;
  if (auto status = catalog_->Commit(std::move(entry)); !status.ok()) return status;
  return highest;
}

absl::StatusOr<std::vector<int64_t>> CheckpointEdits::Delete(const std::string& checkpoint, int64_t version) {
  CatalogEntry entry = catalog_->Find(checkpoint);
  std::vector<int64_t> deleted;
  for (const auto& [number, content] : entry.manifest.versions) {
    if (version == 0 || version == number) deleted.push_back(number);
  }
  if (auto status = version == 0 ? ForgetAll(entry) : ForgetVersion(entry, version); !status.ok()) return status;
  if (auto status = store_->CheckWritable(); !status.ok()) return status;
  if (auto status = catalog_->Commit(std::move(entry)); !status.ok()) return status;
  if (auto status = RemoveDeletedFiles(checkpoint); !status.ok()) return status;
  return deleted;
}

absl::Status CheckpointEdits::ForgetAll(CatalogEntry& entry) const {
  const OperatorFiles files = FindOperatorFiles(dir_, entry.name);
  if (entry.manifest.versions.empty() && files.empty()) return NoSuchCheckpoint(entry);
  const int64_t last_version = entry.manifest.last_version;
  entry.manifest = ManifestCheckpoint();
  entry.manifest.last_version = last_version;
  entry.manifest.deleted_files = files;
  entry.loaded.clear();
  return absl::OkStatus();
}

absl::Status CheckpointEdits::ForgetVersion(CatalogEntry& entry, int64_t version) const {
  const auto found = entry.manifest.versions.find(version);
  if (found == entry.manifest.versions.end()) {
    return entry.manifest.versions.empty() ? NoSuchCheckpoint(entry) : NoSuchVersion(entry, version);
  }
  for (const auto& [alias, named] : entry.manifest.aliases) {
    if (named != version) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("version: ", version, " of checkpoint ", EscapeForMessage(entry.name), " has the alias ", alias));
  }
  // Where there are two files, neither was taken.
  const auto file = loader_->FindFile(entry);
  if (file.ok() && *file && (*file)->sha256 == found->second.sha256) {
    entry.manifest.deleted_files = FindOperatorFiles(dir_, entry.name);
    // Not one that took its place meanwhile.
    std::erase_if(entry.manifest.deleted_files,
                  [&](const auto& deleted) { return deleted.second != (*file)->open.identity; });
    entry.manifest.file.reset();
  }
  entry.manifest.versions.erase(found);
  entry.loaded.erase(version);
  return absl::OkStatus();
}

absl::Status CheckpointEdits::RemoveDeletedFiles(const std::string& checkpoint) {
  CatalogEntry entry = catalog_->Find(checkpoint);
  if (entry.manifest.deleted_files.empty()) return absl::OkStatus();
  const OperatorFiles files = FindOperatorFiles(dir_, checkpoint);
  for (const auto& [extension, identity] : entry.manifest.deleted_files) {
    const auto file = files.find(extension);
    if (file == files.end() || file->second != identity) continue;
    const std::string path = OperatorFilePath(dir_, checkpoint, extension);
    if (auto status = store_->disk().Remove(path); !status.ok()) return status;
    const std::string folder = std::filesystem::path(path).parent_path().string();
    if (auto status = store_->disk().SyncFolder(folder); !status.ok()) return status;
  }
  entry.manifest.deleted_files.clear();
  return catalog_->Commit(std::move(entry));
}

absl::StatusOr<int64_t> CheckpointEdits::SetAlias(const std::string& checkpoint, const AliasChange& change) {
  CatalogEntry entry = catalog_->Find(checkpoint);
  if (entry.manifest.versions.empty()) return NoSuchCheckpoint(entry);
  const int64_t previous = VersionOf(entry, change.alias);
  if (change.expected && *change.expected != previous) {
    return absl::AbortedError(absl::StrCat("expected_version: ", *change.expected, ", but alias ", change.alias,
                                           " of checkpoint ", EscapeForMessage(checkpoint), " names ", previous));
  }
  if (change.version != 0 && !entry.manifest.versions.contains(change.version)) {
    return NoSuchVersion(entry, change.version);
  }
  if (change.version != 0 && entry.manifest.loaded && !entry.loaded.contains(change.version)) {
    return absl::FailedPreconditionError(
        absl::StrCat("version: ", change.version, " of checkpoint ", EscapeForMessage(checkpoint), " is broken"));
  }
  if (auto status = store_->CheckWritable(); !status.ok()) return status;
  if (change.version == 0) {
    entry.manifest.aliases.erase(change.alias);
  } else {
    if (!entry.manifest.versions.at(change.version).blob) {
      if (auto status = loader_->CopyToBlob(entry, change.version); !status.ok()) return status;
    }
    entry.manifest.aliases[change.alias] = change.version;
  }
  if (auto status = catalog_->Commit(std::move(entry)); !status.ok()) return status;
  return previous;
}

}  // namespace attention::server
