#include "server/weights/store/store.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/checkpoint/sha256.h"

namespace attention::server {
namespace {

namespace fs = std::filesystem;

constexpr size_t kCopyBytes = size_t{1} << 20;

absl::Status NotWritable(absl::string_view why) {
  return absl::FailedPreconditionError(absl::StrCat("weights folder: cannot be written: ", why));
}

absl::Span<const std::byte> Bytes(const std::string& text) {
  return absl::MakeConstSpan(reinterpret_cast<const std::byte*>(text.data()), text.size());
}

std::string BlobName(const ManifestVersion& version) { return absl::StrCat(version.sha256, ".", version.format); }

std::set<std::string> NamedBlobs(const Manifest& manifest) {
  std::set<std::string> names;
  for (const auto& [name, checkpoint] : manifest.checkpoints) {
    for (const auto& [number, version] : checkpoint.versions) {
      if (version.blob) names.insert(BlobName(version));
    }
  }
  return names;
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
  if (path_.empty()) return;
  if (auto status = disk_->Remove(path_); !status.ok()) spdlog::warn("{}", status.ToString());
}

Store::Store(const std::string& dir, Disk::BeforeStep before_step)
    : disk_(std::move(before_step)),
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
    writable_ = NotWritable("its manifest is damaged");
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
    return errno == ENOENT || errno == ENOTDIR ? absl::OkStatus() : absl::ErrnoToStatus(errno, "manifest");
  }
  struct stat info;
  if (fstat(file.get(), &info) != 0) return absl::ErrnoToStatus(errno, "manifest");
  const auto mapping = MappedFile::Map(file.get(), info.st_size, "manifest");
  if (!mapping.ok()) return mapping.status();
  const auto* text = reinterpret_cast<const char*>(mapping->bytes().data());
  auto manifest = ParseManifest(absl::string_view(text, mapping->bytes().size()));
  if (!manifest.ok()) {
    return absl::Status(manifest.status().code(), absl::StrCat("manifest: ", manifest.status().message()));
  }
  manifest_ = *std::move(manifest);
  return absl::OkStatus();
}

absl::Status Store::Save(Manifest manifest) {
  if (manifest == manifest_ && !uncertain_) return absl::OkStatus();
  if (writable_.ok()) {
    if (auto status = WriteManifest(SerializeManifest(manifest)); !status.ok()) {
      // Frees the space of a blob that was written for this manifest.
      if (!uncertain_) RemoveUnnamedBlobs();
      return status;
    }
  }
  manifest_ = std::move(manifest);
  if (writable_.ok()) RemoveUnnamedBlobs();
  return absl::OkStatus();
}

absl::Status Store::WriteManifest(const std::string& text) {
  const std::string temporary = manifest_path_ + ".tmp";
  {
    const auto file = disk_.Create(temporary);
    if (!file.ok()) return file.status();
    if (auto status = disk_.WriteAt(*file, 0, Bytes(text)); !status.ok()) return status;
    if (auto status = disk_.Sync(*file); !status.ok()) return status;
  }
  if (auto status = disk_.Rename(temporary, manifest_path_); !status.ok()) return status;
  uncertain_ = true;
  if (auto status = disk_.SyncFolder(own_dir_); !status.ok()) return status;
  uncertain_ = false;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<TemporaryFile>> Store::NewFile(int64_t bytes) const {
  if (!writable_.ok()) return writable_;
  std::string path;
  auto file = disk_.CreateUnique(uploads_dir_ + "/upload-", &path);
  if (!file.ok()) return file.status();
  auto temporary = std::make_unique<TemporaryFile>(&disk_, *std::move(file), std::move(path));
  if (auto status = disk_.Allocate(temporary->file(), bytes); !status.ok()) return status;
  return temporary;
}

absl::Status Store::KeepAsBlob(TemporaryFile& file, const ManifestVersion& version) {
  if (auto status = disk_.Sync(file.file()); !status.ok()) return status;
  if (auto status = disk_.Rename(file.path(), BlobPath(version)); !status.ok()) return status;
  file.Release();
  return disk_.SyncFolder(blobs_dir_);
}

absl::Status Store::CopyToBlob(absl::Span<const std::byte> bytes, const ManifestVersion& version) {
  const auto copy = NewFile(static_cast<int64_t>(bytes.size()));
  if (!copy.ok()) return copy.status();
  Sha256 digest;
  for (size_t done = 0; done < bytes.size(); done += kCopyBytes) {
    // Copied once, then hashed and written: the operator's file may change in between.
    const auto piece = bytes.subspan(done, kCopyBytes);
    const std::vector<std::byte> copied(piece.begin(), piece.end());
    digest.Update(copied);
    if (auto status = disk_.WriteAt((*copy)->file(), done, copied); !status.ok()) return status;
  }
  if (digest.Finish() != version.sha256) {
    return absl::FailedPreconditionError("its file changed while it was copied");
  }
  return KeepAsBlob(**copy, version);
}

absl::StatusOr<MappedFile> Store::OpenBlob(const ManifestVersion& version) const {
  const FileDescriptor file(open(BlobPath(version).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info;
  if (!file.is_open() || fstat(file.get(), &info) != 0) {
    return absl::DataLossError(absl::StrCat("its file cannot be opened: ", std::strerror(errno)));
  }
  auto mapping = MappedFile::Map(file.get(), S_ISREG(info.st_mode) ? info.st_size : 0, "its file");
  if (!mapping.ok()) return mapping.status();
  const std::string sha256 = Sha256Of(mapping->bytes());
  if (sha256 == version.sha256) return mapping;
  return absl::DataLossError(absl::StrCat("sha256 of its file: expected ", version.sha256, ", got ", sha256));
}

std::string Store::BlobPath(const ManifestVersion& version) const {
  return absl::StrCat(blobs_dir_, "/", BlobName(version));
}

// Files that cannot be removed are removed by the next Save or Open.
void Store::RemoveUnnamedBlobs() {
  const std::set<std::string> named = NamedBlobs(manifest_);
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
