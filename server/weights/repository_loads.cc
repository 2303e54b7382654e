// The changes of the repository that load versions.

#include <spdlog/spdlog.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/checkpoint/field_error.h"
#include "server/checkpoint/formats/format.h"
#include "server/weights/repository.h"

namespace attention::server {
namespace {

// The same message for a missing file and for one outside of the folder, so that callers cannot probe the file system.
absl::Status NoSuchCheckpoint(const std::string& checkpoint) {
  return absl::NotFoundError(
      absl::StrCat("checkpoint: the weights folder has no ", EscapeForMessage(checkpoint), CheckpointExtensions()));
}

// A stored version keeps the number of heads that it was uploaded with.
absl::Status CheckStoredHeads(const CheckpointState& state, int64_t num_heads) {
  if (num_heads == 0 || state.manifest.versions.empty()) return absl::OkStatus();
  const auto& [number, version] = *state.manifest.versions.rbegin();
  if (version.num_heads == num_heads) return absl::OkStatus();
  return FieldError("num_heads",
                    absl::StrCat("0 or ", version.num_heads, " as in the upload of version ", number, " of checkpoint ",
                                 EscapeForMessage(state.name)),
                    absl::StrCat(num_heads, "; upload the file again to change it"));
}

void LogBroken(const std::vector<absl::Status>& broken) {
  for (const absl::Status& status : broken) spdlog::error("not served: {}", status.ToString());
}

absl::Status Prefixed(const CheckpointState& state, int64_t number, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("checkpoint ", EscapeForMessage(state.name), ": version ", number,
                                                  ": ", status.message()));
}

absl::Status CheckUnchanged(const OperatorFile& file) {
  return file.IsUnchanged() ? absl::OkStatus() : absl::AbortedError("its file changed while it was read");
}

}  // namespace

absl::StatusOr<Published> Repository::Load(const std::string& checkpoint, int64_t num_heads, Trigger trigger) {
  CheckpointState state = Find(checkpoint);
  const FoundFile file = FindFile(state);
  if (!file.ok()) return file.status();
  const size_t served = state.loaded.size();
  if (served > 0 && !*file && state.DependsOnFile()) return NoSuchCheckpoint(checkpoint);
  state.manifest.loaded = true;
  const std::vector<absl::Status> broken = Restore(state, file);
  bool unchanged = served > 0 && state.loaded.size() == served;
  if (*file) {
    const bool again = trigger == Trigger::kCaller && (served > 0 || state.loaded.empty());
    const auto added = TakeFile(state, **file, num_heads, again);
    if (!added.ok()) return added.status();
    if (*added) unchanged = false;
  }
  LogBroken(broken);
  if (state.loaded.empty() && broken.empty()) return NoSuchCheckpoint(checkpoint);
  if (!*file) {
    if (auto status = CheckStoredHeads(state, num_heads); !status.ok()) return status;
  }
  // A caller learns of broken versions if the load improved nothing.
  if (!broken.empty() && (state.loaded.empty() || (unchanged && trigger == Trigger::kCaller))) return broken.back();
  return CommitAndDescribe(std::move(state), unchanged);
}

// Adds the content of the file as the next version, unless it is the highest version or, without `again`, became a
// version before. Returns true if it added it.
absl::StatusOr<bool> Repository::TakeFile(CheckpointState& state, const OperatorFile& file, int64_t num_heads,
                                          bool again) {
  const bool taken = state.HasTaken(file.sha256, num_heads);
  const std::optional<int64_t> heads = num_heads == 0 ? std::nullopt : std::optional(num_heads);
  const bool is_new = !state.ServesHighest(file.sha256, heads) && (!taken || again);
  if (is_new) {
    const ManifestVersion version{
        .sha256 = file.sha256, .bytes = file.identity.bytes, .format = "", .num_heads = num_heads};
    if (auto status = AddVersion(state, version, file.bytes(), nullptr); !status.ok()) return status;
    if (auto status = CheckUnchanged(file); !status.ok()) {
      return Prefixed(state, state.manifest.last_version, status);
    }
  } else {
    num_heads = taken ? state.manifest.file->num_heads : state.manifest.versions.rbegin()->second.num_heads;
  }
  state.manifest.file = {.sha256 = file.sha256, .num_heads = num_heads, .identity = file.settled_identity};
  return is_new;
}

absl::StatusOr<Published> Repository::PublishLocked(const Upload& upload) {
  const int64_t num_heads = upload.options_.num_heads;
  CheckpointState state = Find(upload.options_.checkpoint);
  const bool served = !state.loaded.empty();
  if (!served) {
    // Avoids loading a version only to drop it.
    if (!state.HasHighest(upload.sha256_, num_heads)) state.DropHighestWithoutAlias();
    LogBroken(Restore(state, FindFile(state)));
  }
  state.manifest.loaded = true;
  if (state.ServesHighest(upload.sha256_, num_heads)) {
    ManifestVersion& highest = state.manifest.versions.rbegin()->second;
    // Makes the version independent of the operator's file.
    if (!highest.blob) {
      if (auto status = store_.KeepAsBlob(*upload.file_, highest); !status.ok()) return status;
      highest.blob = true;
    }
    return CommitAndDescribe(std::move(state), served);
  }
  const ManifestVersion version{
      .sha256 = upload.sha256_, .bytes = upload.options_.bytes, .format = "", .num_heads = num_heads, .blob = true};
  const ParsedCheckpoint* parsed = upload.parsed_ ? &*upload.parsed_ : nullptr;
  if (auto status = AddVersion(state, version, upload.mapping_.bytes(), parsed); !status.ok()) return status;
  const ManifestVersion& added = state.manifest.versions.rbegin()->second;
  if (auto status = store_.KeepAsBlob(*upload.file_, added); !status.ok()) return status;
  return CommitAndDescribe(std::move(state), false);
}

// Serves at the start what the manifest says. Returns the errors of versions that cannot be served.
std::vector<absl::Status> Repository::Resume(const std::string& checkpoint) {
  CheckpointState state = Find(checkpoint);
  FoundFile file = std::optional<OperatorFile>();
  if (state.DependsOnFile()) file = FindFile(state);
  std::vector<absl::Status> broken = Restore(state, file);
  LogBroken(broken);
  if (auto status = Commit(std::move(state)); !status.ok()) broken.push_back(std::move(status));
  return broken;
}

// Stops serving the version that only the removed operator's file held.
absl::Status Repository::ForgetFile(const std::string& checkpoint) {
  CheckpointState state = Find(checkpoint);
  state.manifest.file.reset();
  if (state.DependsOnFile()) state.Drop(state.manifest.versions.rbegin()->first);
  return Commit(std::move(state));
}

absl::StatusOr<Published> Repository::CommitAndDescribe(CheckpointState state, bool unchanged) {
  const std::string checkpoint = state.name;
  if (auto status = Commit(std::move(state)); !status.ok()) return status;
  const CheckpointState committed = Find(checkpoint);
  const auto& [number, loaded] = *committed.loaded.rbegin();
  const ManifestVersion& version = committed.manifest.versions.at(number);
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

Repository::FoundFile Repository::FindFile(const CheckpointState& state) const {
  return OpenOperatorFile(options_.dir, state.name, state.manifest, options_.now());
}

// Loads all versions that are not in memory; returns the errors of those that cannot be loaded. Removes versions
// without a blob whose bytes `file`, the result of FindFile, does not hold.
std::vector<absl::Status> Repository::Restore(CheckpointState& state, const FoundFile& file) const {
  std::vector<absl::Status> broken;
  const std::map<int64_t, ManifestVersion> versions = state.manifest.versions;
  for (const auto& [number, version] : versions) {
    if (state.loaded.contains(number)) continue;
    absl::Status status;
    if (version.blob) {
      status = LoadFromBlob(state, number);
    } else if (!file.ok()) {
      status = file.status();
    } else if (*file && (*file)->sha256 == version.sha256) {
      status = LoadFromFile(state, number, **file);
    } else {
      spdlog::warn("checkpoint {}: version {} was lost with its file", EscapeForMessage(state.name), number);
      // A file that brings the content back becomes a new version.
      if (state.HasTaken(version.sha256, 0)) state.manifest.file.reset();
      state.manifest.versions.erase(number);
    }
    if (!status.ok()) broken.push_back(std::move(status));
  }
  return broken;
}

// Loads new content as the next version and drops versions that are no longer needed. `parsed`: its descriptions if
// they were read already. After an error `state` is unusable.
absl::Status Repository::AddVersion(CheckpointState& state, ManifestVersion version, absl::Span<const std::byte> bytes,
                                    const ParsedCheckpoint* parsed) const {
  const int64_t number = ++state.manifest.last_version;
  state.manifest.versions[number] = std::move(version);
  const bool shares = state.ShareLoaded(number);
  state.DropUnneededVersions();
  return shares ? absl::OkStatus() : LoadVersion(state, number, bytes, parsed);
}

absl::Status Repository::LoadVersion(CheckpointState& state, int64_t number, absl::Span<const std::byte> bytes,
                                     const ParsedCheckpoint* parsed) const {
  ManifestVersion& version = state.manifest.versions.at(number);
  absl::StatusOr<ParsedCheckpoint> read;
  if (parsed == nullptr) {
    read = loader_.Parse(state.name, bytes, version.num_heads);
    if (!read.ok()) return read.status();
    parsed = &*read;
  }
  if (auto status = loader_.CheckFits(state.name, *parsed, state.loaded); !status.ok()) return status;
  auto loaded = loader_.Pack(state.name, number, *parsed);
  if (!loaded.ok()) return loaded.status();
  version.format = std::string(parsed->format->name);
  state.loaded[number] = *std::move(loaded);
  return absl::OkStatus();
}

absl::Status Repository::LoadFromFile(CheckpointState& state, int64_t number, const OperatorFile& file) const {
  if (auto status = LoadVersion(state, number, file.bytes(), nullptr); !status.ok()) return status;
  const absl::Status status = CheckUnchanged(file);
  if (status.ok()) return status;
  state.loaded.erase(number);
  return Prefixed(state, number, status);
}

absl::Status Repository::LoadFromBlob(CheckpointState& state, int64_t number) const {
  if (state.ShareLoaded(number)) return absl::OkStatus();
  const auto blob = store_.OpenBlob(state.manifest.versions.at(number));
  if (!blob.ok()) return Prefixed(state, number, blob.status());
  return LoadVersion(state, number, blob->bytes(), nullptr);
}

}  // namespace attention::server
