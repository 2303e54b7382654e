#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/weights/loader.h"
#include "server/weights/store/manifest.h"

namespace attention::server {

// The versions of one checkpoint: those in the manifest, and which of them are in memory. The repository copies the
// current state, changes the copy and commits it.
struct CheckpointState {
  std::string name;
  ManifestCheckpoint manifest;

  // A subset of manifest.versions. A version that is missing here is broken, or the checkpoint is unloaded.
  LoadedVersions loaded;

  // Set when a version is added: the weight sets of the one before that it does not have, sorted.
  std::vector<std::string> removed_weight_sets = {};

  // True if the highest version has this content and was loaded with this `num_heads` (nullopt: with any).
  bool HasHighest(const std::string& sha256, std::optional<int64_t> num_heads) const;

  // The same, and the highest version is in memory.
  bool ServesHighest(const std::string& sha256, std::optional<int64_t> num_heads) const;

  // True if the highest version has no blob, so that only the operator's file holds its bytes.
  bool DependsOnFile() const;

  // True if the content of an operator's file became a version before; `num_heads` 0 matches any.
  bool HasTaken(const std::string& sha256, int64_t num_heads) const;

  // Removes the versions that are neither among the `keep` highest nor named by an alias.
  void DropUnneededVersions(int64_t keep);

  // Removes the versions that are not in memory, except the highest and those that an alias names.
  void DropBrokenVersions();

  // True if an alias names the version.
  bool HasAlias(int64_t version) const;

  // The same error with the checkpoint and the version before its message.
  absl::Status Prefixed(int64_t version, const absl::Status& status) const;

  // The weight sets of the highest version that is in memory, sorted.
  std::vector<std::string> HighestNames() const;

  // Removes one version from the manifest and from memory.
  void Drop(int64_t version);

  // If a loaded version has the same content and `num_heads` as `version`, loads `version` with the same layers and
  // returns true.
  bool ShareLoaded(int64_t version);
};

}  // namespace attention::server
