#include "server/weights/catalog.h"

#include <set>
#include <utility>
#include <vector>

namespace attention::server {
namespace {

std::vector<std::string> Names(const LoadedVersions& loaded) {
  std::set<std::string> names;
  for (const auto& [number, version] : loaded) {
    for (const WeightSetPtr& weight_set : version.weight_sets) names.insert(weight_set->name);
  }
  return {names.begin(), names.end()};
}

}  // namespace

bool CatalogEntry::HasHighest(const std::string& sha256, std::optional<int64_t> num_heads) const {
  if (manifest.versions.empty()) return false;
  const ManifestVersion& version = manifest.versions.rbegin()->second;
  return version.sha256 == sha256 && (!num_heads || version.num_heads == *num_heads);
}

bool CatalogEntry::IsHighest(const std::string& sha256, std::optional<int64_t> num_heads) const {
  return HasHighest(sha256, num_heads) && loaded.contains(manifest.versions.rbegin()->first);
}

void CatalogEntry::DropVersions() {
  if (manifest.versions.empty()) return;
  std::set<int64_t> kept = {manifest.versions.rbegin()->first};
  for (const auto& [alias, number] : manifest.aliases) kept.insert(number);
  std::erase_if(manifest.versions, [&](const auto& version) { return !kept.contains(version.first); });
  std::erase_if(loaded, [&](const auto& version) { return !kept.contains(version.first); });
}

void CatalogEntry::DropHighestWithoutAlias() {
  if (manifest.versions.empty()) return;
  const int64_t highest = manifest.versions.rbegin()->first;
  for (const auto& [alias, number] : manifest.aliases) {
    if (number == highest) return;
  }
  manifest.versions.erase(highest);
  loaded.erase(highest);
}

CatalogEntry Catalog::Find(absl::string_view name) const {
  CatalogEntry entry{std::string(name), {}, {}};
  const auto& checkpoints = store_->manifest().checkpoints;
  if (const auto found = checkpoints.find(name); found != checkpoints.end()) entry.manifest = found->second;
  if (const auto found = loaded_.find(name); found != loaded_.end()) entry.loaded = found->second;
  return entry;
}

absl::Status Catalog::Commit(CatalogEntry entry) {
  entry.DropVersions();
  if (!entry.manifest.loaded) entry.loaded.clear();
  if (auto status = registry_->CheckNames(entry.name, Names(entry.loaded)); !status.ok()) return status;
  Manifest manifest = store_->manifest();
  if (entry.manifest == ManifestCheckpoint()) {
    manifest.checkpoints.erase(entry.name);
  } else {
    manifest.checkpoints[entry.name] = entry.manifest;
  }
  if (auto status = store_->Save(std::move(manifest)); !status.ok()) return status;

  ServedCheckpoint served{{}, {entry.manifest.aliases.begin(), entry.manifest.aliases.end()}};
  for (const auto& [number, version] : entry.loaded) served.versions[number] = version.weight_sets;
  // What is freed here is freed after the registry has let go of it.
  const LoadedVersions before = std::exchange(loaded_[entry.name], std::move(entry.loaded));
  return registry_->Serve(entry.name, std::move(served));
}

}  // namespace attention::server
