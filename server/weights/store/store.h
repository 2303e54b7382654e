#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/checkpoint/file.h"
#include "server/weights/store/disk.h"
#include "server/weights/store/manifest.h"

namespace attention::server {

// A file in uploads/ that is being written. The destructor removes it unless it became a blob.
class TemporaryFile {
 public:
  TemporaryFile(const Disk* disk, FileDescriptor file, std::string path)
      : disk_(disk), file_(std::move(file)), path_(std::move(path)) {}
  ~TemporaryFile();

  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const FileDescriptor& file() const { return file_; }
  const std::string& path() const { return path_; }

  // To be called after the file was renamed: the destructor does not remove it.
  void Release() { path_.clear(); }

 private:
  const Disk* const disk_;
  const FileDescriptor file_;
  std::string path_;
};

// The files that the server itself keeps in the weights folder:
//
//   DIR/.attention/manifest.json            which versions and aliases exist; see Manifest
//   DIR/.attention/blobs/<sha256>.<format>  whole checkpoint files, never changed
//   DIR/.attention/uploads/                 files that are being written
//   DIR/.attention/lock                     locked by the process that may write
//
// Crash safety: Save replaces the manifest by a rename, after every blob that it names is durable, so a crash leaves
// the old manifest or the new one. Files that the manifest does not name (blobs, temporary files) are garbage; Open and
// Save remove them.
//
// Not thread-safe, except that NewFile, CheckWritable and disk may be called by any thread after Open.
class Store {
 public:
  // With an empty `dir` nothing can be written.
  Store(const std::string& dir, Disk::BeforeStep before_step);

  // Locks the folder, reads the manifest and removes garbage. A folder that cannot be written or locked is no error;
  // see CheckWritable. INVALID_ARGUMENT for a damaged manifest; then all files are left as they are.
  absl::Status Open();

  // FAILED_PRECONDITION, with the reason, if nothing can be written. Save then changes only the manifest in memory.
  absl::Status CheckWritable() const;

  const Manifest& manifest() const { return manifest_; }

  // Replaces the manifest, then removes blobs that it does not name. After an error the old manifest remains in effect;
  // if the process then crashes, the next one may read either.
  absl::Status Save(Manifest manifest);

  // Creates a temporary file with space for `bytes` bytes. Any thread. FAILED_PRECONDITION if nothing can be written,
  // RESOURCE_EXHAUSTED if the disk has not enough space.
  absl::StatusOr<std::unique_ptr<TemporaryFile>> NewFile(int64_t bytes) const;

  // Makes a complete temporary file the blob of `version`, durably. To be called before Save with that version.
  absl::Status KeepAsBlob(TemporaryFile& file, const ManifestVersion& version);

  // Writes bytes of an operator's file as the blob of `version`. FAILED_PRECONDITION if their digest differs from that
  // of the version, because the file changed.
  absl::Status CopyToBlob(absl::Span<const std::byte> bytes, const ManifestVersion& version);

  // Maps the blob of `version`. DATA_LOSS if it cannot be opened or has another digest.
  absl::StatusOr<MappedFile> OpenBlob(const ManifestVersion& version) const;

  const Disk& disk() const { return disk_; }

 private:
  absl::Status TakeLock();
  absl::Status ReadManifest();
  absl::Status WriteManifest(const std::string& text);
  void RemoveUnnamedBlobs();
  void RemoveFiles(const std::string& folder);
  std::string BlobPath(const ManifestVersion& version) const;

  const Disk disk_;
  const std::string own_dir_, blobs_dir_, uploads_dir_, manifest_path_;  // empty without a folder

  absl::Status writable_;  // constant after Open
  FileDescriptor lock_;
  Manifest manifest_;

  // True if the rename of the last manifest may not be durable. Blobs that only one of the two names are then kept.
  bool uncertain_ = false;
};

}  // namespace attention::server
