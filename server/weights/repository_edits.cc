// The changes of the repository that load nothing.

#include <spdlog/spdlog.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/checkpoint/field_error.h"
#include "server/weights/repository.h"

namespace attention::server {
namespace {

absl::Status NoSuchVersion(const CheckpointState& state, int64_t version) {
  const auto number = [](std::string* out, const auto& entry) { absl::StrAppend(out, entry.first); };
  return absl::NotFoundError(absl::StrCat("version: checkpoint \"", EscapeForMessage(state.name), "\" has no version ",
                                          version, ", only ", absl::StrJoin(state.manifest.versions, ", ", number)));
}

absl::Status NoSuchCheckpoint(const CheckpointState& state) {
  return absl::NotFoundError(
      absl::StrCat("checkpoint: no checkpoint named \"", EscapeForMessage(state.name), "\" exists"));
}

absl::Status VersionPrecondition(const CheckpointState& state, int64_t version, absl::string_view reason) {
  return absl::FailedPreconditionError(
      absl::StrCat("version: version ", version, " of checkpoint \"", EscapeForMessage(state.name), "\" ", reason));
}

// 0 if the alias does not exist.
int64_t VersionOf(const CheckpointState& state, const std::string& alias) {
  const auto found = state.manifest.aliases.find(alias);
  return found == state.manifest.aliases.end() ? 0 : found->second;
}

}  // namespace

absl::StatusOr<int64_t> Repository::UnloadLocked(const std::string& checkpoint) {
  CheckpointState state = Find(checkpoint);
  if (state.loaded.empty()) {
    return absl::NotFoundError(
        absl::StrCat("checkpoint: no checkpoint named \"", EscapeForMessage(checkpoint), "\" is loaded"));
  }
  const int64_t highest = state.loaded.rbegin()->first;
  state.manifest.loaded = false;
  if (auto status = Commit(std::move(state)); !status.ok()) return status;
  return highest;
}

// The change takes effect with the manifest, so what fails afterwards is no error of the call.
absl::StatusOr<Deleted> Repository::DeleteLocked(const std::string& checkpoint, int64_t version) {
  CheckpointState state = Find(checkpoint);
  Deleted deleted;
  for (const auto& [number, content] : state.manifest.versions) {
    if (version == 0 || version == number) deleted.versions.push_back(number);
  }
  if (auto status = version == 0 ? DeleteAll(state) : DeleteVersion(state, version); !status.ok()) return status;
  if (auto status = store_.CheckWritable(); !status.ok()) return status;
  const OperatorFiles files = state.manifest.deleted_files;
  if (auto status = Commit(std::move(state)); !status.ok()) return status;
  if (auto status = RemoveDeletedFiles(checkpoint); !status.ok()) {
    spdlog::warn("checkpoint {}: deleted; the next start tries again to remove its file: {}", checkpoint,
                 status.ToString());
  }
  const OperatorFiles present = FindOperatorFiles(options_.dir, checkpoint);
  for (const auto& [extension, identity] : files) {
    const auto file = present.find(extension);
    const bool remains = file != present.end() && file->second == identity;
    const std::string name = absl::StrCat(checkpoint, ".", extension);
    (remains ? deleted.remaining_files : deleted.removed_files).push_back(name);
    if (!remains) spdlog::info("checkpoint {}: the file {} was removed from the weights folder", checkpoint, name);
  }
  return deleted;
}

absl::Status Repository::DeleteAll(CheckpointState& state) const {
  const OperatorFiles files = FindOperatorFiles(options_.dir, state.name);
  if (state.manifest.versions.empty() && files.empty()) return NoSuchCheckpoint(state);
  const int64_t last_version = state.manifest.last_version;
  state.manifest = ManifestCheckpoint();
  state.manifest.last_version = last_version;
  state.manifest.deleted_files = files;
  state.loaded.clear();
  return absl::OkStatus();
}

absl::Status Repository::DeleteVersion(CheckpointState& state, int64_t version) const {
  const auto found = state.manifest.versions.find(version);
  if (found == state.manifest.versions.end()) {
    return state.manifest.versions.empty() ? NoSuchCheckpoint(state) : NoSuchVersion(state, version);
  }
  for (const auto& [alias, number] : state.manifest.aliases) {
    if (number == version) return VersionPrecondition(state, version, absl::StrCat("has the alias \"", alias, "\""));
  }
  // An error means two files, of which neither became a version, or an unreadable one.
  const FoundFile file = FindFile(state);
  if (file.ok() && *file && (*file)->sha256 == found->second.sha256) {
    state.manifest.deleted_files = FindOperatorFiles(options_.dir, state.name);
    // Keeps a file that replaced the opened one meanwhile.
    std::erase_if(state.manifest.deleted_files,
                  [&](const auto& deleted) { return deleted.second != (*file)->identity; });
    state.manifest.file.reset();
  }
  state.Drop(version);
  return absl::OkStatus();
}

// Removes the operator's files that the manifest lists as deleted. They remain there after a crash, or after an error
// of the file system.
absl::Status Repository::RemoveDeletedFiles(const std::string& checkpoint) {
  CheckpointState state = Find(checkpoint);
  OperatorFiles& deleted = state.manifest.deleted_files;
  if (deleted.empty()) return absl::OkStatus();
  if (auto status = RemoveOperatorFiles(store_.disk(), options_.dir, checkpoint, deleted); !status.ok()) return status;
  deleted.clear();
  return Commit(std::move(state));
}

absl::StatusOr<int64_t> Repository::SetAliasLocked(const std::string& checkpoint, const AliasChange& change) {
  CheckpointState state = Find(checkpoint);
  if (state.manifest.versions.empty()) return NoSuchCheckpoint(state);
  const int64_t previous = VersionOf(state, change.alias);
  if (change.expected && *change.expected != previous) {
    return absl::AbortedError(absl::StrCat("expected_version: expected ", previous, " as named by alias \"",
                                           change.alias, "\" of checkpoint \"", EscapeForMessage(checkpoint),
                                           "\", got ", *change.expected));
  }
  if (change.version != 0 && !state.manifest.versions.contains(change.version)) {
    return NoSuchVersion(state, change.version);
  }
  if (change.version != 0 && state.manifest.loaded && !state.loaded.contains(change.version)) {
    return VersionPrecondition(state, change.version, "is broken");
  }
  if (auto status = store_.CheckWritable(); !status.ok()) return status;
  if (change.version == 0) {
    state.manifest.aliases.erase(change.alias);
  } else {
    if (auto status = CopyFileToBlob(state, change.version); !status.ok()) return status;
    state.manifest.aliases[change.alias] = change.version;
  }
  if (auto status = Commit(std::move(state)); !status.ok()) return status;
  return previous;
}

// Makes a version that only the operator's file holds independent of that file. Does nothing if it has a blob.
absl::Status Repository::CopyFileToBlob(CheckpointState& state, int64_t number) {
  ManifestVersion& version = state.manifest.versions.at(number);
  if (version.blob) return absl::OkStatus();
  const FoundFile file = FindFile(state);
  if (!file.ok()) return file.status();
  if (!*file || (*file)->sha256 != version.sha256) {
    return VersionPrecondition(state, number, "was held only by its file in the weights folder, which has changed");
  }
  if (auto status = store_.CopyToBlob((*file)->bytes, version); !status.ok()) return status;
  version.blob = true;
  return absl::OkStatus();
}

}  // namespace attention::server
