#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/weights/blob_store.h"
#include "server/weights/blob_upload.h"
#include "server/weights/catalog.h"
#include "server/weights/registry.h"
#include "server/weights/upload.h"
#include "server/weights/version_loader.h"

namespace attention::server {

// The changes of the repository that bring versions into memory. What Repository documents, of one checkpoint whose
// name was checked, and one at a time.
class CheckpointLoads {
 public:
  // All of them outlive this.
  CheckpointLoads(Catalog* catalog, const VersionLoader* loader, BlobStore* store, const Registry* registry)
      : catalog_(catalog), loader_(loader), store_(store), registry_(registry) {}

  // Who wants a file to be taken. A caller gets its content served even where a later upload had taken its place; the
  // watch and the start take only what is new.
  enum class Asked { kByCaller, kByItself };

  // Loads the operator's file, or what is known of the checkpoint without one.
  absl::StatusOr<Published> Load(const std::string& checkpoint, int64_t num_heads, Asked asked);

  // Serves what the manifest says at the start. Returns why some of it cannot be.
  std::vector<absl::Status> Resume(const std::string& checkpoint);

  // Serves an upload.
  absl::StatusOr<Published> Publish(const UploadOptions& options, const UploadedFile& uploaded);

  // Stops serving what only the operator's file held, which is gone.
  absl::Status ForgetFile(const std::string& checkpoint);

 private:
  absl::Status AddFile(CatalogEntry& entry, const FoundFile& file, int64_t num_heads) const;
  absl::StatusOr<Published> Commit(CatalogEntry entry, bool unchanged);
  absl::StatusOr<Published> Describe(const std::string& checkpoint, bool unchanged) const;

  Catalog* const catalog_;
  const VersionLoader* const loader_;
  BlobStore* const store_;
  const Registry* const registry_;
};

}  // namespace attention::server
