#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/checkpoint/file.h"
#include "server/weights/store/blob_prefetch.h"
#include "server/weights/store/disk.h"
#include "server/weights/store/manifest.h"

namespace attention::server {

// A file in uploads/ that is being written. The destructor removes it unless it became a blob.
class TemporaryFile {
 public:
  // `incoming` is the sum of Reserve of all temporary files, and must outlive this.
  TemporaryFile(const Disk* disk, FileDescriptor file, std::string path, std::atomic<int64_t>* incoming)
      : disk_(disk), incoming_(incoming), file_(std::move(file)), path_(std::move(path)) {}
  ~TemporaryFile();

  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const FileDescriptor& file() const { return file_; }
  const std::string& path() const { return path_; }

  // Counts `bytes` more bytes as incoming until the destructor.
  void Reserve(int64_t bytes) {
    reserved_ += bytes;
    *incoming_ += bytes;
  }

  // To be called after the file was renamed: the destructor does not remove it.
  void Release() { path_.clear(); }

 private:
  const Disk* const disk_;
  std::atomic<int64_t>* const incoming_;
  const FileDescriptor file_;
  std::string path_;
  int64_t reserved_ = 0;
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
// Not thread-safe, except that NewFile, WriteAt, CheckWritable and disk may be called by any thread after Open.
class Store {
 public:
  // With an empty `dir` nothing can be written. `max_bytes`: limit of the bytes in blobs and temporary files.
  Store(const std::string& dir, int64_t max_bytes, Disk::BeforeStep before_step);

  // Locks the folder, reads the manifest and removes garbage. A folder that cannot be written or locked is no error;
  // see CheckWritable. INVALID_ARGUMENT for a damaged manifest; then all files are left as they are.
  absl::Status Open();

  // FAILED_PRECONDITION, with the reason, if nothing can be written. Save then changes only the manifest in memory.
  absl::Status CheckWritable() const;

  const Manifest& manifest() const { return manifest_; }

  // The manifest's entry of a checkpoint; one without versions if there is none.
  ManifestCheckpoint EntryOf(absl::string_view checkpoint) const;

  // Makes `entry` the manifest's entry of a checkpoint (an empty one removes it), then removes blobs that the manifest
  // does not name. After an error the old manifest remains in effect; if the process then crashes, the next one may
  // read either. While a Batch exists, changes only the manifest in memory.
  absl::Status Save(const std::string& checkpoint, const ManifestCheckpoint& entry);

  // Writes the changes of many checkpoints at once, because each write takes time in proportion to the whole manifest.
  class Batch {
   public:
    explicit Batch(Store* store) : store_(store) { store_->batching_ = true; }
    ~Batch() { store_->batching_ = false; }

    Batch(const Batch&) = delete;
    Batch& operator=(const Batch&) = delete;

    // Writes the changes since the batch began. After an error they remain in effect in memory, and the next Save
    // writes them too.
    absl::Status Write() { return store_->unsaved_ ? store_->WriteManifest() : absl::OkStatus(); }

   private:
    Store* const store_;
  };

  // Creates a temporary file of `bytes` bytes, which take no space until they are written. Any thread.
  // FAILED_PRECONDITION if nothing can be written; RESOURCE_EXHAUSTED if the bytes do not fit on the disk or into the
  // limit.
  absl::StatusOr<std::unique_ptr<TemporaryFile>> NewFile(int64_t bytes) const;

  // Writes bytes of a temporary file that were not written before. Any thread, but one at a time for each file.
  // RESOURCE_EXHAUSTED if the disk is full or the limit is reached.
  absl::Status WriteAt(TemporaryFile& file, int64_t offset, absl::Span<const std::byte> bytes) const;

  // Makes a complete temporary file the blob of `version`, durably. To be called before Save with that version.
  absl::Status KeepAsBlob(TemporaryFile& file, const ManifestVersion& version);

  // Copies an operator's file to the blob of `version`. FAILED_PRECONDITION if its digest differs from that of the
  // version, because the file changed. Errors also as ByteSource::Read.
  absl::Status CopyToBlob(const ByteSource& file, const ManifestVersion& version);

  // Opens the blob of `version`. DATA_LOSS if it is missing or has another digest; FAILED_PRECONDITION if it may not be
  // read. Errors also as FileReader::Read.
  absl::StatusOr<OpenedFile> OpenBlob(const ManifestVersion& version) const;

  // Opens the blobs of `versions` on several threads, in this order, for later calls of OpenBlob. Until EndPrefetch.
  void BeginPrefetch(const std::vector<ManifestVersion>& versions);
  void EndPrefetch() { prefetch_.reset(); }

  const Disk& disk() const { return disk_; }

 private:
  absl::Status TakeLock();
  absl::Status ReadManifest();
  void SetEntry(const std::string& checkpoint, const ManifestCheckpoint& entry);
  absl::Status WriteManifest();
  absl::Status ReplaceManifest(const std::string& text);
  void RemoveUnnamedBlobs();
  void RemoveFiles(const std::string& folder);
  std::string BlobPath(const ManifestVersion& version) const;
  absl::StatusOr<OpenedFile> ReadBlob(const ManifestVersion& version) const;

  absl::Status CheckLimit(int64_t bytes) const;

  const Disk disk_;
  const int64_t max_bytes_;
  const std::string own_dir_, blobs_dir_, uploads_dir_, manifest_path_;  // empty without a folder

  absl::Status writable_;  // constant after Open
  FileDescriptor lock_;
  std::atomic<int64_t> blob_bytes_ = 0;              // of the blobs that manifest_ names
  mutable std::atomic<int64_t> incoming_bytes_ = 0;  // of all temporary files
  Manifest manifest_;

  // True if the manifest on the disk may differ from manifest_: after a change of a batch, or if the rename of the last
  // manifest may not be durable. Blobs that only one of the two names are then kept.
  bool unsaved_ = false;
  bool batching_ = false;  // a Batch exists

  std::unique_ptr<BlobPrefetch> prefetch_;  // null: none
};

}  // namespace attention::server
