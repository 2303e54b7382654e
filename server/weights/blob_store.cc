#include "server/weights/blob_store.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

namespace attention::server {
namespace {

namespace fs = std::filesystem;

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

}  // namespace

TemporaryFile::~TemporaryFile() {
  if (path_.empty()) return;
  if (auto status = disk_->Remove(path_); !status.ok()) spdlog::warn("{}", status.ToString());
}

BlobStore::BlobStore(const std::string& dir, Disk::BeforeStep before_step)
    : disk_(std::move(before_step)),
      own_dir_(Below(dir, "/.attention")),
      blobs_dir_(Below(own_dir_, "/blobs")),
      uploads_dir_(Below(own_dir_, "/uploads")),
      manifest_path_(Below(own_dir_, "/manifest.json")),
      writable_(NotWritable("the server has none (--weights-dir)")) {}

absl::Status BlobStore::Open() {
  if (own_dir_.empty()) return absl::OkStatus();
  writable_ = TakeLock();
  if (!writable_.ok()) {
    spdlog::warn("{}; what is loaded is remembered until the server ends", writable_.ToString());
  }
  if (auto status = ReadManifest(); !status.ok()) {
    writable_ = NotWritable("its manifest is damaged");
    return status;
  }
  if (!writable_.ok()) return absl::OkStatus();
  RemoveGarbage(uploads_dir_, false);
  RemoveGarbage(blobs_dir_, true);
  return disk_.Remove(manifest_path_ + ".tmp");
}

absl::Status BlobStore::CheckWritable() const { return writable_; }

absl::Status BlobStore::TakeLock() {
  for (const std::string& folder : {own_dir_, blobs_dir_, uploads_dir_}) {
    if (auto status = disk_.CreateFolder(folder); !status.ok()) return NotWritable(status.message());
  }
  auto lock = disk_.Create(own_dir_ + "/lock");
  if (!lock.ok()) return NotWritable(lock.status().message());
  if (flock(lock->get(), LOCK_EX | LOCK_NB) != 0) {
    return NotWritable(errno == EWOULDBLOCK ? "another server uses it" : "it cannot be locked");
  }
  // The folders must outlive a crash as much as what will be in them.
  for (const std::string& folder : {own_dir_, fs::path(own_dir_).parent_path().string()}) {
    if (auto status = disk_.SyncFolder(folder); !status.ok()) return NotWritable(status.message());
  }
  lock_ = *std::move(lock);
  return absl::OkStatus();
}

absl::Status BlobStore::ReadManifest() {
  const FileDescriptor file(open(manifest_path_.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) {
    return errno == ENOENT || errno == ENOTDIR ? absl::OkStatus() : absl::ErrnoToStatus(errno, "manifest");
  }
  struct stat info;
  if (fstat(file.get(), &info) != 0) return absl::ErrnoToStatus(errno, "manifest");
  const auto mapping = FileMapping::Map(file, info.st_size);
  if (!mapping.ok()) return mapping.status();
  const auto* text = reinterpret_cast<const char*>(mapping->bytes().data());
  auto manifest = ParseManifest(absl::string_view(text, mapping->bytes().size()));
  if (!manifest.ok()) {
    return absl::Status(manifest.status().code(), absl::StrCat("manifest: ", manifest.status().message()));
  }
  manifest_ = *std::move(manifest);
  return absl::OkStatus();
}

absl::Status BlobStore::Save(Manifest manifest) {
  if (manifest == manifest_ && !uncertain_) return absl::OkStatus();
  if (writable_.ok()) {
    if (auto status = WriteManifest(SerializeManifest(manifest)); !status.ok()) {
      // A blob that came for this manifest takes no more room.
      if (!uncertain_) RemoveGarbage(blobs_dir_, true);
      return status;
    }
  }
  manifest_ = std::move(manifest);
  if (writable_.ok()) RemoveGarbage(blobs_dir_, true);
  return absl::OkStatus();
}

absl::Status BlobStore::WriteManifest(const std::string& text) {
  const std::string beside = manifest_path_ + ".tmp";
  {
    const auto file = disk_.Create(beside);
    if (!file.ok()) return file.status();
    if (auto status = disk_.WriteAt(*file, 0, Bytes(text)); !status.ok()) return status;
    if (auto status = disk_.Sync(*file); !status.ok()) return status;
  }
  if (auto status = disk_.Rename(beside, manifest_path_); !status.ok()) return status;
  uncertain_ = true;
  if (auto status = disk_.SyncFolder(own_dir_); !status.ok()) return status;
  uncertain_ = false;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<TemporaryFile>> BlobStore::NewFile(int64_t bytes) const {
  if (!writable_.ok()) return writable_;
  std::string path;
  auto file = disk_.CreateUnique(uploads_dir_ + "/upload-", &path);
  if (!file.ok()) return file.status();
  auto temporary = std::make_unique<TemporaryFile>(&disk_, *std::move(file), std::move(path));
  if (auto status = disk_.Allocate(temporary->file(), bytes); !status.ok()) return status;
  return temporary;
}

absl::Status BlobStore::Keep(TemporaryFile& file, const ManifestVersion& version) {
  if (auto status = disk_.Sync(file.file()); !status.ok()) return status;
  if (auto status = disk_.Rename(file.path(), BlobPath(version)); !status.ok()) return status;
  file.Release();
  return disk_.SyncFolder(blobs_dir_);
}

std::string BlobStore::BlobPath(const ManifestVersion& version) const {
  return absl::StrCat(blobs_dir_, "/", BlobName(version));
}

// Failures are tried again by the next change and the next start.
void BlobStore::RemoveGarbage(const std::string& folder, bool keep_named) {
  const std::set<std::string> named = keep_named ? NamedBlobs(manifest_) : std::set<std::string>();
  std::error_code error;
  std::vector<std::string> garbage;
  for (fs::directory_iterator it(folder, error); !error && it != fs::directory_iterator(); it.increment(error)) {
    if (!named.contains(it->path().filename().string())) garbage.push_back(it->path().string());
  }
  for (const std::string& path : garbage) {
    if (auto status = disk_.Remove(path); !status.ok()) spdlog::warn("{}", status.ToString());
  }
}

}  // namespace attention::server
