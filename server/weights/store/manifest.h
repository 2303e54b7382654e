#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace attention::server {

// Distinguishes two states of a file without reading it.
struct FileIdentity {
  uint64_t inode = 0;
  int64_t bytes = 0;
  int64_t modified_ns = 0;  // since 1970
  int64_t changed_ns = 0;   // change time of the inode; detects a modification time that was set back

  bool operator==(const FileIdentity&) const = default;
};

struct ManifestVersion {
  std::string sha256;
  int64_t bytes = 0;
  std::string format;     // CheckpointFormat::name
  int64_t num_heads = 0;  // LoadOptions::num_heads, needed to load the version again

  // True: blobs/ holds the bytes. False: the operator's file does, as long as it has this digest.
  bool blob = false;

  bool operator==(const ManifestVersion&) const = default;
};

// The content of the operator's file that became a version most recently, so that it becomes a version only once.
struct ManifestFile {
  std::string sha256;
  int64_t num_heads = 0;
  std::optional<FileIdentity> identity;  // nullopt: the file must be hashed again

  bool operator==(const ManifestFile&) const = default;
};

struct ManifestCheckpoint {
  int64_t last_version = 0;  // highest number ever used, including deleted versions
  bool loaded = true;        // false: unloaded until it is loaded again
  std::map<int64_t, ManifestVersion> versions;
  std::map<std::string, int64_t> aliases;  // to keys of `versions`
  std::optional<ManifestFile> file;

  // Operator's files that Delete is removing, by extension. A file with another identity is a new file.
  std::map<std::string, FileIdentity> deleted_files;

  bool operator==(const ManifestCheckpoint&) const = default;
};

// What the weights folder serves, apart from operator's files that have not been loaded yet.
struct Manifest {
  std::map<std::string, ManifestCheckpoint, std::less<>> checkpoints;

  // The last_version of a checkpoint that is not listed. Above 0 only after ForgetDeleted.
  int64_t forgotten_last_version = 0;

  bool operator==(const Manifest&) const = default;
};

// Removes the entries of deleted checkpoints until at most `kept` of them remain, so that the manifest does not grow
// with each name that was ever used. Those with the lowest last_version first: new checkpoints then start above it, so
// that no version number of a name is used twice.
void ForgetDeleted(Manifest& manifest, size_t kept);

// Returns JSON; equal manifests give equal text.
std::string SerializeManifest(const Manifest& manifest);

// Strict: INVALID_ARGUMENT for text that SerializeManifest does not write, such as an unknown field or format version,
// and for contradictions: a bad name or digest, an alias of a missing version, a version above last_version.
absl::StatusOr<Manifest> ParseManifest(absl::string_view text);

}  // namespace attention::server
