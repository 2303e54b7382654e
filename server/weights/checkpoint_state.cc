#include "server/weights/checkpoint_state.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "server/checkpoint/field_error.h"

namespace attention::server {

bool CheckpointState::HasHighest(const std::string& sha256, std::optional<int64_t> num_heads) const {
  if (manifest.versions.empty()) return false;
  const ManifestVersion& highest = manifest.versions.rbegin()->second;
  return highest.sha256 == sha256 && (!num_heads || highest.num_heads == *num_heads);
}

bool CheckpointState::ServesHighest(const std::string& sha256, std::optional<int64_t> num_heads) const {
  return HasHighest(sha256, num_heads) && loaded.contains(manifest.versions.rbegin()->first);
}

bool CheckpointState::DependsOnFile() const {
  return !manifest.versions.empty() && !manifest.versions.rbegin()->second.blob;
}

bool CheckpointState::HasTaken(const std::string& sha256, int64_t num_heads) const {
  const std::optional<ManifestFile>& taken = manifest.file;
  return taken && taken->sha256 == sha256 && (num_heads == 0 || taken->num_heads == num_heads);
}

void CheckpointState::DropUnneededVersions(int64_t keep) {
  std::set<int64_t> kept;
  for (auto it = manifest.versions.rbegin(); it != manifest.versions.rend() && keep > 0; ++it, --keep) {
    kept.insert(it->first);
  }
  for (const auto& [alias, number] : manifest.aliases) kept.insert(number);
  std::erase_if(manifest.versions, [&](const auto& version) { return !kept.contains(version.first); });
  std::erase_if(loaded, [&](const auto& version) { return !kept.contains(version.first); });
}

void CheckpointState::DropBrokenVersions() {
  if (manifest.versions.empty()) return;
  const int64_t highest = manifest.versions.rbegin()->first;
  std::erase_if(manifest.versions, [&](const auto& version) {
    return version.first != highest && !loaded.contains(version.first) && !HasAlias(version.first);
  });
}

bool CheckpointState::HasAlias(int64_t version) const {
  return std::any_of(manifest.aliases.begin(), manifest.aliases.end(),
                     [version](const auto& alias) { return alias.second == version; });
}

absl::Status CheckpointState::Prefixed(int64_t version, const absl::Status& status) const {
  return absl::Status(status.code(), absl::StrCat("checkpoint ", EscapeForMessage(name), ": version ", version, ": ",
                                                  status.message()));
}

std::vector<std::string> CheckpointState::HighestNames() const {
  std::vector<std::string> names;
  if (loaded.empty()) return names;
  for (const WeightSetPtr& weight_set : loaded.rbegin()->second.weight_sets) names.push_back(weight_set->name);
  return names;
}

void CheckpointState::Drop(int64_t version) {
  manifest.versions.erase(version);
  loaded.erase(version);
}

bool CheckpointState::ShareLoaded(int64_t version) {
  ManifestVersion& shared = manifest.versions.at(version);
  for (const auto& [number, other] : loaded) {
    const ManifestVersion& content = manifest.versions.at(number);
    if (content.sha256 != shared.sha256 || content.num_heads != shared.num_heads) continue;
    shared.format = content.format;
    loaded[version] = WithVersion(other, version);
    return true;
  }
  return false;
}

}  // namespace attention::server
