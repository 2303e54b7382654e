#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/weights/disk.h"
#include "server/weights/manifest.h"

namespace attention::server {

// A file in uploads/ that is being written; removed when the object goes, unless it was kept.
class TemporaryFile {
 public:
  TemporaryFile(const Disk* disk, FileDescriptor file, std::string path)
      : disk_(disk), file_(std::move(file)), path_(std::move(path)) {}
  ~TemporaryFile();

  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const FileDescriptor& file() const { return file_; }
  const std::string& path() const { return path_; }

  // It has another name now, and stays.
  void Release() { path_.clear(); }

 private:
  const Disk* const disk_;
  const FileDescriptor file_;
  std::string path_;
};

// What the server itself keeps in the weights folder:
//
//   DIR/.attention/manifest.json            what is served; see Manifest
//   DIR/.attention/blobs/<sha256>.<format>  whole checkpoint files, never changed
//   DIR/.attention/uploads/                 files that are being written
//   DIR/.attention/lock                     held by the process that may write
//
// The manifest is replaced by renaming, after everything that it names is on the disk: a crash leaves the old one or
// the new one. What no manifest names (a blob that came too early, one that is no longer named, a temporary file) is
// garbage, which Open removes.
//
// Not thread-safe, but for NewFile and CheckWritable after Open.
class BlobStore {
 public:
  // An empty `dir` is a folder that cannot be written.
  BlobStore(const std::string& dir, Disk::BeforeStep before_step);

  // Takes the lock, reads the manifest, and removes garbage. A folder that cannot be written or locked is no error; see
  // CheckWritable. INVALID_ARGUMENT for a damaged manifest, which is then left as it is, and so is all else here.
  absl::Status Open();

  // FAILED_PRECONDITION, with the reason, if nothing can be written. Save then keeps the manifest in memory only.
  absl::Status CheckWritable() const;

  const Manifest& manifest() const { return manifest_; }

  // Replaces the manifest, then removes the blobs that it does not name. After an error the old one holds; after a
  // crash that follows the error it may be either.
  absl::Status Save(Manifest manifest);

  // A file for `bytes` bytes, for which there is room. Any thread.
  absl::StatusOr<std::unique_ptr<TemporaryFile>> NewFile(int64_t bytes) const;

  // Makes a whole file the blob of this version, durably. The manifest that names it comes next.
  absl::Status Keep(TemporaryFile& file, const ManifestVersion& version);

  std::string BlobPath(const ManifestVersion& version) const;
  const Disk& disk() const { return disk_; }

 private:
  absl::Status TakeLock();
  absl::Status ReadManifest();
  absl::Status WriteManifest(const std::string& text);
  void RemoveGarbage(const std::string& folder, bool keep_named);

  const Disk disk_;
  const std::string own_dir_, blobs_dir_, uploads_dir_, manifest_path_;  // empty without a folder

  absl::Status writable_;
  FileDescriptor lock_;
  Manifest manifest_;

  // The last manifest was perhaps, not surely, replaced: blobs that only the one or the other names are left alone.
  bool uncertain_ = false;
};

}  // namespace attention::server
