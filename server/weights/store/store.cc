#include "server/weights/store/store.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/runtime/process.h"
#include "server/weights/store/digest.h"

namespace attention::server {
namespace {

namespace fs = std::filesystem;

// Threads that hash blobs at the start. More of them rarely read faster from one disk.
constexpr int kMaxPrefetchThreads = 4;

// Deleted checkpoints that the manifest lists.
constexpr size_t kMaxDeleted = 1000;

absl::Status NotWritable(absl::string_view why) {
  return absl::FailedPreconditionError(absl::StrCat("weights folder: cannot be written: ", why));
}

absl::Span<const std::byte> Bytes(const std::string& text) {
  return absl::MakeConstSpan(reinterpret_cast<const std::byte*>(text.data()), text.size());
}

// A missing file, or one that the disk cannot read, is damage. Missing permission is for the operator to change.
absl::Status CannotOpen(int error) {
  const std::string text = absl::StrCat("its file cannot be opened: ", std::strerror(error));
  if (error == EACCES || error == EPERM) return absl::FailedPreconditionError(text);
  if (error == ENOENT || error == ENOTDIR || error == ELOOP || error == EIO) return absl::DataLossError(text);
  return absl::Status(absl::ErrnoToStatusCode(error), text);
}

std::string BlobName(const ManifestVersion& version) { return absl::StrCat(version.sha256, ".", version.format); }

// The sizes of the blobs that the manifest names, by file name.
std::map<std::string, int64_t> NamedBlobs(const Manifest& manifest) {
  std::map<std::string, int64_t> blobs;
  for (const auto& [name, checkpoint] : manifest.checkpoints) {
    for (const auto& [number, version] : checkpoint.versions) {
      if (version.blob) blobs[BlobName(version)] = version.bytes;
    }
  }
  return blobs;
}

std::string Below(const std::string& dir, absl::string_view path) { return dir.empty() ? "" : absl::StrCat(dir, path); }

std::vector<fs::path> FilesIn(const std::string& folder) {
  std::error_code error;
  std::vector<fs::path> files;
  for (fs::directory_iterator it(folder, error); !error && it != fs::directory_iterator(); it.increment(error)) {
    files.push_back(it->path());
  }
  return files;
}

}  // namespace

TemporaryFile::~TemporaryFile() {
  *incoming_ -= reserved_;
  if (path_.empty()) return;
  if (auto status = disk_->Remove(path_); !status.ok()) spdlog::warn("{}", status.ToString());
}

Store::Store(const std::string& dir, int64_t max_bytes, Disk::BeforeStep before_step)
    : disk_(std::move(before_step)),
      max_bytes_(max_bytes),
      own_dir_(Below(dir, "/.attention")),
      blobs_dir_(Below(own_dir_, "/blobs")),
      uploads_dir_(Below(own_dir_, "/uploads")),
      manifest_path_(Below(own_dir_, "/manifest.json")),
      writable_(NotWritable("no folder is set (--weights-dir)")) {}

absl::Status Store::Open() {
  if (own_dir_.empty()) return absl::OkStatus();
  writable_ = TakeLock();
  if (!writable_.ok()) {
    spdlog::warn("{}; loads and unloads last until the server stops", writable_.ToString());
  }
  if (auto status = ReadManifest(); !status.ok()) {
    writable_ =
        NotWritable(absl::IsInvalidArgument(status) ? "its manifest is damaged" : "its manifest cannot be read");
    return status;
  }
  if (!writable_.ok()) return absl::OkStatus();
  RemoveFiles(uploads_dir_);
  RemoveUnnamedBlobs();
  return disk_.Remove(manifest_path_ + ".tmp");
}

absl::Status Store::CheckWritable() const { return writable_; }

absl::Status Store::TakeLock() {
  for (const std::string& folder : {own_dir_, blobs_dir_, uploads_dir_}) {
    if (auto status = disk_.CreateFolder(folder); !status.ok()) return NotWritable(status.message());
  }
  auto lock = disk_.Create(own_dir_ + "/lock");
  if (!lock.ok()) return NotWritable(lock.status().message());
  if (flock(lock->get(), LOCK_EX | LOCK_NB) != 0) {
    return NotWritable(errno == EWOULDBLOCK ? "another server uses it" : "it cannot be locked");
  }
  // The folders themselves must survive a crash as well as the files in them.
  for (const std::string& folder : {own_dir_, fs::path(own_dir_).parent_path().string()}) {
    if (auto status = disk_.SyncFolder(folder); !status.ok()) return NotWritable(status.message());
  }
  lock_ = *std::move(lock);
  return absl::OkStatus();
}

absl::Status Store::ReadManifest() {
  const FileDescriptor file(open(manifest_path_.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) {
    if (errno == ENOENT || errno == ENOTDIR) return absl::OkStatus();
    const absl::Status status = CannotOpen(errno);
    return absl::Status(status.code(), absl::StrCat("manifest: ", status.message()));
  }
  struct stat info;
  if (fstat(file.get(), &info) != 0) return absl::ErrnoToStatus(errno, "manifest");
  const FileReader reader(file, static_cast<uint64_t>(info.st_size), "manifest");
  const auto bytes = ReadRange(reader, 0, reader.size());
  if (!bytes.ok()) return bytes.status();
  auto manifest = ParseManifest({reinterpret_cast<const char*>(bytes->data()), bytes->size()});
  if (!manifest.ok()) {
    return absl::Status(manifest.status().code(), absl::StrCat("manifest: ", manifest.status().message()));
  }
  manifest_ = *std::move(manifest);
  return absl::OkStatus();
}

absl::Status Store::Save(const std::string& checkpoint, const ManifestCheckpoint& entry) {
  const ManifestCheckpoint previous = EntryOf(checkpoint);
  const bool changes = entry != previous;
  if (!changes && (batching_ || !unsaved_)) return absl::OkStatus();
  SetEntry(checkpoint, entry);
  if (batching_) {
    unsaved_ = true;
    return absl::OkStatus();
  }
  absl::Status status = WriteManifest();
  if (status.ok()) return status;
  SetEntry(checkpoint, previous);
  // Frees the space of a blob that was written for this entry.
  if (!unsaved_) RemoveUnnamedBlobs();
  return status;
}

ManifestCheckpoint Store::EntryOf(absl::string_view checkpoint) const {
  const auto found = manifest_.checkpoints.find(checkpoint);
  if (found != manifest_.checkpoints.end()) return found->second;
  ManifestCheckpoint entry;
  entry.last_version = manifest_.forgotten_last_version;
  return entry;
}

void Store::SetEntry(const std::string& checkpoint, const ManifestCheckpoint& entry) {
  ManifestCheckpoint none;
  none.last_version = manifest_.forgotten_last_version;
  if (entry == none) {
    manifest_.checkpoints.erase(checkpoint);
  } else {
    manifest_.checkpoints[checkpoint] = entry;
  }
}

// Replaces the manifest on the disk by manifest_, if the folder can be written.
absl::Status Store::WriteManifest() {
  if (!writable_.ok()) return absl::OkStatus();
  ForgetDeleted(manifest_, kMaxDeleted);
  if (auto status = ReplaceManifest(SerializeManifest(manifest_)); !status.ok()) return status;
  RemoveUnnamedBlobs();
  return absl::OkStatus();
}

absl::Status Store::ReplaceManifest(const std::string& text) {
  const std::string temporary = manifest_path_ + ".tmp";
  {
    const auto file = disk_.Create(temporary);
    if (!file.ok()) return file.status();
    if (auto status = disk_.WriteAt(*file, 0, Bytes(text)); !status.ok()) return status;
    if (auto status = disk_.Sync(*file); !status.ok()) return status;
  }
  if (auto status = disk_.Rename(temporary, manifest_path_); !status.ok()) return status;
  unsaved_ = true;
  if (auto status = disk_.SyncFolder(own_dir_); !status.ok()) return status;
  unsaved_ = false;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<TemporaryFile>> Store::NewFile(int64_t bytes) const {
  if (!writable_.ok()) return writable_;
  if (auto status = CheckLimit(bytes); !status.ok()) return status;
  std::string path;
  auto file = disk_.CreateUnique(uploads_dir_ + "/upload-", &path);
  if (!file.ok()) return file.status();
  auto temporary = std::make_unique<TemporaryFile>(&disk_, *std::move(file), std::move(path), &incoming_bytes_);
  if (auto status = disk_.Resize(temporary->file(), bytes); !status.ok()) return status;
  return temporary;
}

absl::Status Store::WriteAt(TemporaryFile& file, int64_t offset, absl::Span<const std::byte> bytes) const {
  const auto count = static_cast<int64_t>(bytes.size());
  // Reserved first, so that two files cannot both take the last bytes.
  file.Reserve(count);
  if (auto status = CheckLimit(0); !status.ok()) return status;
  return disk_.WriteAt(file.file(), offset, bytes);
}

absl::Status Store::CheckLimit(int64_t bytes) const {
  const int64_t taken = blob_bytes_ + incoming_bytes_;
  if (bytes <= max_bytes_ - taken) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("weights folder: expected at most --max-weight-storage ", max_bytes_,
                                                   " bytes of stored and arriving uploads, got ", taken,
                                                   bytes > 0 ? absl::StrCat(" and ", bytes, " more") : ""));
}

absl::Status Store::KeepAsBlob(TemporaryFile& file, const ManifestVersion& version) {
  if (auto status = disk_.Sync(file.file()); !status.ok()) return status;
  if (auto status = disk_.Rename(file.path(), BlobPath(version)); !status.ok()) return status;
  file.Release();
  return disk_.SyncFolder(blobs_dir_);
}

absl::Status Store::CopyToBlob(const ByteSource& file, const ManifestVersion& version) {
  const auto copy = NewFile(static_cast<int64_t>(file.size()));
  if (!copy.ok()) return copy.status();
  // Read once, then hashed and written: the operator's file may change in between.
  const auto sha256 = DigestOf(file, [&](uint64_t offset, absl::Span<const std::byte> piece) {
    return WriteAt(**copy, static_cast<int64_t>(offset), piece);
  });
  if (!sha256.ok()) return sha256.status();
  if (*sha256 != version.sha256) {
    return absl::FailedPreconditionError("its file changed while it was copied");
  }
  return KeepAsBlob(**copy, version);
}

absl::StatusOr<OpenedFile> Store::OpenBlob(const ManifestVersion& version) const {
  return prefetch_ != nullptr ? prefetch_->Take(version) : ReadBlob(version);
}

void Store::BeginPrefetch(const std::vector<ManifestVersion>& versions) {
  const int threads = std::min({kMaxPrefetchThreads, UsableCpus(), static_cast<int>(versions.size())});
  if (threads < 2) return;
  prefetch_ = std::make_unique<BlobPrefetch>(versions, threads,
                                             [this](const ManifestVersion& version) { return ReadBlob(version); });
}

absl::StatusOr<OpenedFile> Store::ReadBlob(const ManifestVersion& version) const {
  FileDescriptor file(open(BlobPath(version).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info;
  if (!file.is_open() || fstat(file.get(), &info) != 0) return CannotOpen(errno);
  const FileReader bytes(file, S_ISREG(info.st_mode) ? static_cast<uint64_t>(info.st_size) : 0, "its file");
  const auto sha256 = DigestOf(bytes);
  if (!sha256.ok()) return sha256.status();
  if (*sha256 == version.sha256) return OpenedFile{std::move(file), bytes};
  return absl::DataLossError(absl::StrCat("sha256 of its file: expected ", version.sha256, ", got ", *sha256));
}

std::string Store::BlobPath(const ManifestVersion& version) const {
  return absl::StrCat(blobs_dir_, "/", BlobName(version));
}

// Files that cannot be removed are removed by the next Save or Open.
void Store::RemoveUnnamedBlobs() {
  const std::map<std::string, int64_t> named = NamedBlobs(manifest_);
  int64_t bytes = 0;
  for (const auto& [name, size] : named) bytes += size;
  blob_bytes_ = bytes;
  for (const fs::path& path : FilesIn(blobs_dir_)) {
    if (named.contains(path.filename().string())) continue;
    if (auto status = disk_.Remove(path.string()); !status.ok()) spdlog::warn("{}", status.ToString());
  }
}

void Store::RemoveFiles(const std::string& folder) {
  for (const fs::path& path : FilesIn(folder)) {
    if (auto status = disk_.Remove(path.string()); !status.ok()) spdlog::warn("{}", status.ToString());
  }
}

}  // namespace attention::server
