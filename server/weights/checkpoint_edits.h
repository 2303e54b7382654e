#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/weights/blob_store.h"
#include "server/weights/catalog.h"
#include "server/weights/operator_files.h"
#include "server/weights/version_loader.h"

namespace attention::server {

// Which version an alias is to name. Repository::SetAlias documents it.
struct AliasChange {
  std::string alias;
  int64_t version = 0;
  std::optional<int64_t> expected;
};

// The changes of the repository that load nothing. What Repository documents, of one checkpoint whose name was checked,
// and one at a time.
class CheckpointEdits {
 public:
  // All of them outlive this.
  CheckpointEdits(std::string dir, Catalog* catalog, const VersionLoader* loader, BlobStore* store)
      : dir_(std::move(dir)), catalog_(catalog), loader_(loader), store_(store) {}

  absl::StatusOr<int64_t> Unload(const std::string& checkpoint);
  absl::StatusOr<std::vector<int64_t>> Delete(const std::string& checkpoint, int64_t version);
  absl::StatusOr<int64_t> SetAlias(const std::string& checkpoint, const AliasChange& change);

  // Removes the operator's files that the manifest says are deleted. A crash, or a folder that cannot be written, may
  // have left them there.
  absl::Status RemoveDeletedFiles(const std::string& checkpoint);

 private:
  absl::Status ForgetVersion(CatalogEntry& entry, int64_t version) const;
  absl::Status ForgetAll(CatalogEntry& entry) const;

  const std::string dir_;
  Catalog* const catalog_;
  const VersionLoader* const loader_;
  BlobStore* const store_;
};

}  // namespace attention::server
