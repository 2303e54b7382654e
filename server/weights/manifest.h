#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace attention::server {

// Tells one state of a file from another without reading it.
struct FileIdentity {
  uint64_t inode = 0;
  int64_t bytes = 0;
  int64_t modified_ns = 0;  // since 1970
  int64_t changed_ns = 0;   // the same of the inode: also where somebody sets the time of modification back

  bool operator==(const FileIdentity&) const = default;
};

struct ManifestVersion {
  std::string sha256;
  int64_t bytes = 0;
  std::string format;     // FormatName
  int64_t num_heads = 0;  // LoadOptions::num_heads, which a later start needs again

  // In blobs/. Else the operator's file holds it, as long as that has this digest.
  bool blob = false;

  bool operator==(const ManifestVersion&) const = default;
};

// What was last taken from an operator's file, so that it is not taken again.
struct ManifestFile {
  std::string sha256;
  int64_t num_heads = 0;
  std::optional<FileIdentity> identity;  // none: to be hashed again

  bool operator==(const ManifestFile&) const = default;
};

struct ManifestCheckpoint {
  int64_t last_version = 0;  // stays when versions go
  bool loaded = true;        // false: Unload, until it is loaded again
  std::map<int64_t, ManifestVersion> versions;
  std::map<std::string, int64_t> aliases;  // to versions that are there
  std::optional<ManifestFile> file;

  // Operator's files that Delete is about to remove, by extension. Files with another identity have come since.
  std::map<std::string, FileIdentity> deleted_files;

  bool operator==(const ManifestCheckpoint&) const = default;
};

// What the weights folder serves, apart from new files of the operator.
struct Manifest {
  std::map<std::string, ManifestCheckpoint, std::less<>> checkpoints;

  bool operator==(const Manifest&) const = default;
};

// JSON. The same text for the same manifest.
std::string SerializeManifest(const Manifest& manifest);

// Strict: INVALID_ARGUMENT for what SerializeManifest does not write, an unknown field or format among it, and for what
// contradicts itself: a bad name or digest, an alias of a missing version, a version above the last.
absl::StatusOr<Manifest> ParseManifest(absl::string_view text);

}  // namespace attention::server
