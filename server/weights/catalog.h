#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "server/weights/blob_store.h"
#include "server/weights/checkpoint_loader.h"
#include "server/weights/manifest.h"
#include "server/weights/registry.h"

namespace attention::server {

// One checkpoint: what the manifest says of it, and what of that is in memory. A copy to be changed; Catalog::Commit
// makes it true.
struct CatalogEntry {
  std::string name;
  ManifestCheckpoint manifest;
  LoadedVersions loaded;  // of manifest.versions; a version that is missing is broken, or the checkpoint is unloaded

  // True if the highest version has this content, given with this number of heads (nothing: with any); and if it is in
  // memory, too.
  bool HasHighest(const std::string& sha256, std::optional<int64_t> num_heads) const;
  bool IsHighest(const std::string& sha256, std::optional<int64_t> num_heads) const;

  // Forgets the versions that are neither the highest nor named by an alias.
  void DropVersions();

  // Forgets the highest version unless an alias names it. For an entry that gets another one.
  void DropHighestWithoutAlias();
};

// The checkpoints as they are on the disk, in memory and in the registry, which change together: first the disk, then
// the others, which cannot fail. Not thread-safe, the registry aside.
class Catalog {
 public:
  // Both must outlive this.
  Catalog(BlobStore* store, Registry* registry) : store_(store), registry_(registry) {}

  // An empty entry if there is none of that name.
  CatalogEntry Find(absl::string_view name) const;

  // Makes `entry` what is true of its checkpoint, but for versions that are dropped and what need not be in memory.
  // ALREADY_EXISTS if another checkpoint serves one of its weight sets, else what BlobStore::Save says; then nothing
  // has changed.
  absl::Status Commit(CatalogEntry entry);

 private:
  BlobStore* const store_;
  Registry* const registry_;
  std::map<std::string, LoadedVersions, std::less<>> loaded_;
};

}  // namespace attention::server
