// The changes of the repository that load versions.

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
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

void LogRemoved(const Published& published) {
  if (!published.dropped_versions.empty()) {
    spdlog::info("checkpoint {}: no longer keeps version {}", published.checkpoint,
                 absl::StrJoin(published.dropped_versions, ", "));
  }
  if (!published.removed_weight_sets.empty()) {
    spdlog::warn("checkpoint {}: version {} no longer has the weight sets {}", published.checkpoint, published.version,
                 absl::StrJoin(published.removed_weight_sets, ", "));
  }
}

void LogBroken(const std::vector<absl::Status>& broken) {
  for (const absl::Status& status : broken) spdlog::error("not served: {}", status.ToString());
}

}  // namespace

absl::StatusOr<Published> Repository::Load(const std::string& checkpoint, const LoadOptions& options, Trigger trigger) {
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
    const auto added = TakeFile(state, **file, options, again);
    if (!added.ok()) return added.status();
    if (*added) unchanged = false;
  }
  LogBroken(broken);
  if (state.loaded.empty() && broken.empty()) return NoSuchCheckpoint(checkpoint);
  if (!*file) {
    if (auto status = CheckStoredHeads(state, options.num_heads); !status.ok()) return status;
  }
  // A caller learns of broken versions if the load improved nothing.
  if (!broken.empty() && (state.loaded.empty() || (unchanged && trigger == Trigger::kCaller))) return broken.back();
  return CommitAndDescribe(std::move(state), unchanged);
}

// Adds the content of the file as the next version, unless it is the highest version or, without `again`, became a
// version before. Returns true if it added it.
absl::StatusOr<bool> Repository::TakeFile(CheckpointState& state, const OperatorFile& file, LoadOptions options,
                                          bool again) {
  int64_t& num_heads = options.num_heads;
  const bool taken = state.HasTaken(file.sha256, num_heads);
  const std::optional<int64_t> heads = num_heads == 0 ? std::nullopt : std::optional(num_heads);
  const bool is_new = !state.ServesHighest(file.sha256, heads) && (!taken || again);
  if (is_new) {
    const ManifestVersion version{
        .sha256 = file.sha256, .bytes = file.identity.bytes, .format = "", .num_heads = num_heads};
    const NewVersion added{.entry = version, .bytes = file.bytes, .replace = options.replace};
    if (auto status = AddVersion(state, added); !status.ok()) return status;
    if (auto status = file.CheckUnchanged(); !status.ok()) return state.Prefixed(state.manifest.last_version, status);
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
  if (!served) LogBroken(Restore(state, FindFile(state)));
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
  const NewVersion new_version{.entry = version,
                               .bytes = upload.bytes_,
                               .parsed = upload.parsed_ ? &*upload.parsed_ : nullptr,
                               .replace = upload.options_.replace};
  if (auto status = AddVersion(state, new_version); !status.ok()) return status;
  const ManifestVersion& added = state.manifest.versions.rbegin()->second;
  if (auto status = store_.KeepAsBlob(*upload.file_, added); !status.ok()) return status;
  return CommitAndDescribe(std::move(state), false);
}

// Serves at the start what the manifest says. Returns the errors of versions that cannot be served.
std::vector<absl::Status> Repository::Resume(const std::string& checkpoint) {
  CheckpointState state = Find(checkpoint);
  const bool needs_file = std::any_of(state.manifest.versions.begin(), state.manifest.versions.end(),
                                      [](const auto& version) { return !version.second.blob; });
  const FoundFile file = needs_file ? FindFile(state) : FoundFile(std::nullopt);
  std::vector<absl::Status> broken = Restore(state, file);
  LogBroken(broken);
  if (auto status = Commit(std::move(state)); !status.ok()) broken.push_back(std::move(status));
  return broken;
}

// Stops serving the versions that only the removed operator's file held.
absl::Status Repository::ForgetFile(const std::string& checkpoint) {
  CheckpointState state = Find(checkpoint);
  state.manifest.file.reset();
  const std::map<int64_t, ManifestVersion> versions = state.manifest.versions;
  for (const auto& [number, version] : versions) {
    if (!version.blob) state.Drop(number);
  }
  return Commit(std::move(state));
}

absl::StatusOr<Published> Repository::CommitAndDescribe(CheckpointState state, bool unchanged) {
  const std::string checkpoint = state.name;
  const CheckpointState before = Find(checkpoint);
  const std::vector<std::string> removed_weight_sets = state.removed_weight_sets;
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
                      .unused_tensors = loaded.unused_tensors,
                      .dropped_versions = {},
                      .removed_weight_sets = removed_weight_sets};
  for (const auto& [dropped, entry] : before.manifest.versions) {
    if (!committed.manifest.versions.contains(dropped)) published.dropped_versions.push_back(dropped);
  }
  LogRemoved(published);
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

}  // namespace attention::server
