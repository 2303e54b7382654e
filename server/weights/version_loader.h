#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "server/weights/blob_store.h"
#include "server/weights/catalog.h"
#include "server/weights/checkpoint_loader.h"
#include "server/weights/operator_files.h"
#include "server/weights/registry.h"
#include "server/weights/self_test.h"

namespace attention::server {

// An operator's file whose digest is known.
struct FoundFile {
  OpenOperatorFile open;
  std::string sha256;
  std::optional<FileIdentity> identity;  // none: it may still change without a trace

  absl::Span<const std::byte> bytes() const { return open.mapping.bytes(); }
};

// Brings versions of checkpoints from files into memory. Changes the entries that it is given and, but for CopyToBlob,
// nothing else.
class VersionLoader {
 public:
  struct Options {
    std::string dir;
    int64_t max_weight_bytes = 0;
    ComputeSelfTest compute_self_test;
    std::function<absl::Time()> now;
  };

  // Both must outlive this.
  VersionLoader(Options options, BlobStore* store, const Registry* registry)
      : options_(std::move(options)), store_(store), registry_(registry) {}

  // The operator's file of a checkpoint; hashed unless it is as it was when it was last taken. INVALID_ARGUMENT, with
  // both, if there are two; FAILED_PRECONDITION if it cannot be opened.
  absl::StatusOr<std::optional<FoundFile>> FindFile(const CatalogEntry& entry) const;

  // Loads all versions that are not in memory. `file` is what FindFile says; versions that only the operator's file
  // held, of which the content is gone, are forgotten. Returns why others could not be loaded.
  std::vector<absl::Status> Restore(CatalogEntry& entry, const absl::StatusOr<std::optional<FoundFile>>& file) const;

  // Loads new content as the next version, and drops those that it makes superfluous. `parsed` is its header, if that
  // was read already. Errors as Repository::LoadCheckpoint; the entry is then of no more use.
  absl::Status Add(CatalogEntry& entry, ManifestVersion version, absl::Span<const std::byte> bytes,
                   const ParsedCheckpoint* parsed = nullptr) const;

  // Copies the operator's file, which holds this version, into a blob. FAILED_PRECONDITION if it holds another content
  // by now.
  absl::Status CopyToBlob(CatalogEntry& entry, int64_t number) const;

 private:
  absl::Status Load(CatalogEntry& entry, int64_t number, absl::Span<const std::byte> bytes,
                    const ParsedCheckpoint* parsed) const;
  absl::Status LoadFromFile(CatalogEntry& entry, int64_t number, const FoundFile& file) const;
  absl::Status LoadBlob(CatalogEntry& entry, int64_t number) const;

  const Options options_;
  BlobStore* const store_;
  const Registry* const registry_;
};

}  // namespace attention::server
