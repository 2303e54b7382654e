// How the repository brings single versions into memory.

#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/checkpoint/field_error.h"
#include "server/weights/repository.h"

namespace attention::server {
namespace {

// Weight sets of the version before that the new one does not have, sorted.
std::vector<std::string> MissingNames(const std::vector<std::string>& before, const std::vector<std::string>& now) {
  std::vector<std::string> missing;
  std::set_difference(before.begin(), before.end(), now.begin(), now.end(), std::back_inserter(missing));
  return missing;
}

// Names at most ten of them.
absl::Status CheckReplaces(int64_t version, const std::vector<std::string>& missing, bool replace) {
  if (replace || missing.empty()) return absl::OkStatus();
  constexpr size_t kShown = 10;
  const absl::Span<const std::string> shown = absl::MakeConstSpan(missing).first(std::min(missing.size(), kShown));
  const std::string more =
      missing.size() > kShown ? absl::StrCat(" and ", missing.size() - kShown, " more") : std::string();
  return absl::FailedPreconditionError(absl::StrCat("replace: expected true to replace version ", version,
                                                    ", because the new one lacks the weight sets ",
                                                    absl::StrJoin(shown, ", "), more, ", got false"));
}

}  // namespace

// Loads all versions that are not in memory; returns the errors of those that cannot be loaded. Removes versions
// without a blob whose bytes `file`, the result of FindFile, does not hold.
std::vector<absl::Status> Repository::Restore(CheckpointState& state, const FoundFile& file) const {
  std::vector<absl::Status> broken;
  const std::map<int64_t, ManifestVersion> versions = state.manifest.versions;
  bool is_replaced = false;  // the file no longer holds the highest version that it held
  // The highest first: an older one without an alias is served only if it fits beside it.
  for (auto it = versions.rbegin(); it != versions.rend(); ++it) {
    const auto& [number, version] = *it;
    if (state.loaded.contains(number)) continue;
    absl::Status status;
    if (version.blob) {
      status = LoadFromBlob(state, number);
    } else if (!file.ok()) {
      status = file.status();
    } else if (*file && (*file)->sha256 == version.sha256 && !is_replaced) {
      status = LoadFromFile(state, number, **file);
    } else {
      spdlog::warn("checkpoint {}: version {} was lost with its file", EscapeForMessage(state.name), number);
      // A file that brings the content of this or of an older version back becomes a new version.
      is_replaced = true;
      if (state.HasTaken(version.sha256, 0)) state.manifest.file.reset();
      state.manifest.versions.erase(number);
    }
    if (absl::IsResourceExhausted(status) && number != versions.rbegin()->first && !state.HasAlias(number)) {
      spdlog::warn("checkpoint {}: version {} does not fit beside the highest version: {}",
                   EscapeForMessage(state.name), number, status.ToString());
    } else if (!status.ok()) {
      broken.insert(broken.begin(), std::move(status));
    }
  }
  return broken;
}

// Loads new content as the next version and drops versions that are no longer kept. After an error `state` is unusable.
absl::Status Repository::AddVersion(CheckpointState& state, NewVersion added) const {
  const std::vector<std::string> names_before = state.HighestNames();
  const int64_t version_before = state.loaded.empty() ? 0 : state.loaded.rbegin()->first;
  const int64_t number = ++state.manifest.last_version;
  state.manifest.versions[number] = added.entry;
  const bool shares = state.ShareLoaded(number);
  absl::StatusOr<ParsedCheckpoint> parsed;
  if (!shares && added.parsed == nullptr) {
    parsed = loader_.Parse(state.name, added.bytes, added.entry.num_heads);
    if (!parsed.ok()) return parsed.status();
    added.parsed = &*parsed;
  }
  state.removed_weight_sets = MissingNames(names_before, shares ? state.HighestNames() : added.parsed->names());
  if (auto status = CheckReplaces(version_before, state.removed_weight_sets, added.replace); !status.ok()) {
    return status;
  }
  state.DropBrokenVersions();
  state.DropUnneededVersions(options_.keep_versions);
  if (shares) return absl::OkStatus();
  // Makes room if the new version does not fit beside the old ones.
  if (absl::IsResourceExhausted(loader_.CheckFits(state.name, *added.parsed, state.loaded))) {
    state.DropUnneededVersions(1);
  }
  return LoadVersion(state, number, added.bytes, added.parsed);
}

absl::Status Repository::LoadVersion(CheckpointState& state, int64_t number, const ByteSource& bytes,
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
  if (auto status = LoadVersion(state, number, file.bytes); !status.ok()) return status;
  const absl::Status status = file.CheckUnchanged();
  if (status.ok()) return status;
  state.loaded.erase(number);
  return state.Prefixed(number, status);
}

absl::Status Repository::LoadFromBlob(CheckpointState& state, int64_t number) const {
  if (state.ShareLoaded(number)) return absl::OkStatus();
  const auto blob = store_.OpenBlob(state.manifest.versions.at(number));
  if (!blob.ok()) return state.Prefixed(number, blob.status());
  return LoadVersion(state, number, blob->bytes);
}

}  // namespace attention::server
