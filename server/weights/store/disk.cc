#include "server/weights/store/disk.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace attention::server {
namespace {

absl::Status SystemError(int error, absl::string_view what) {
  const absl::Status status = absl::ErrnoToStatus(error, absl::StrCat("weights folder: cannot ", what));
  return status.code() == absl::StatusCode::kPermissionDenied ? absl::FailedPreconditionError(status.message())
                                                              : status;
}

// Gives a new file or folder the group and those of the `mode` bits that its folder has. Without effect on file systems
// that do not store them, and for a group that this process may not give.
void ShareLikeFolder(const FileDescriptor& file, const std::string& path, mode_t mode) {
  struct stat folder;
  if (!file.is_open() || stat(path.substr(0, path.rfind('/')).c_str(), &folder) != 0) return;
  // The group first, because a change of it can clear bits of the mode.
  const bool shared = fchown(file.get(), static_cast<uid_t>(-1), folder.st_gid) == 0;
  // The bits of the folder's group are not meant for another group.
  static_cast<void>(fchmod(file.get(), mode & folder.st_mode & (shared ? 07777 : 07707)));
}

}  // namespace

absl::Status Disk::Before(absl::string_view verb, const std::string& path) const {
  if (before_step_ == nullptr) return absl::OkStatus();
  return before_step_(absl::StrCat(verb, " ", path.substr(path.rfind('/') + 1)));
}

absl::Status Disk::CreateFolder(const std::string& path) const {
  if (auto status = Before("mkdir", path); !status.ok()) return status;
  struct stat info;
  if (mkdir(path.c_str(), 0777) == 0) {
    ShareLikeFolder(FileDescriptor(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)), path, 02777);
    return absl::OkStatus();
  }
  const int error = errno;
  if (error == EEXIST && stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) return absl::OkStatus();
  return SystemError(error, "create a folder");
}

absl::StatusOr<FileDescriptor> Disk::CreateUnique(const std::string& prefix, std::string* path) const {
  if (auto status = Before("create", prefix); !status.ok()) return status;
  std::string name = prefix + "XXXXXX";
  FileDescriptor file(mkostemp(name.data(), O_CLOEXEC));
  if (!file.is_open()) return SystemError(errno, "create a file");
  ShareLikeFolder(file, name, 0666);
  *path = std::move(name);
  return file;
}

absl::StatusOr<FileDescriptor> Disk::Create(const std::string& path) const {
  if (auto status = Before("create", path); !status.ok()) return status;
  FileDescriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file.is_open()) return SystemError(errno, "create a file");
  ShareLikeFolder(file, path, 0666);
  return file;
}

absl::Status Disk::Resize(const FileDescriptor& file, int64_t bytes) const {
  if (auto status = Before("resize", ""); !status.ok()) return status;
  struct statvfs disk;
  const bool is_known = fstatvfs(file.get(), &disk) == 0 && disk.f_frsize > 0;
  const bool fits = !is_known || static_cast<uint64_t>(bytes) / disk.f_frsize <= disk.f_bavail;
  if (fits && ftruncate(file.get(), bytes) == 0) return absl::OkStatus();
  const int error = errno;
  // EFBIG and EINVAL: larger than the file system allows for any file.
  if (!fits || error == ENOSPC || error == EFBIG || error == EINVAL) {
    return absl::ResourceExhaustedError(absl::StrCat("weights folder: the disk has no room for ", bytes, " bytes"));
  }
  return SystemError(error, "resize a file");
}

absl::Status Disk::WriteAt(const FileDescriptor& file, int64_t offset, absl::Span<const std::byte> bytes) const {
  if (auto status = Before("write", ""); !status.ok()) return status;
  while (!bytes.empty()) {
    const ssize_t written = pwrite(file.get(), bytes.data(), bytes.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return SystemError(errno, "write a file");
    bytes.remove_prefix(written);
    offset += written;
  }
  return absl::OkStatus();
}

absl::Status Disk::Sync(const FileDescriptor& file) const {
  if (auto status = Before("sync", ""); !status.ok()) return status;
  return fsync(file.get()) == 0 ? absl::OkStatus() : SystemError(errno, "sync a file");
}

absl::Status Disk::SyncFolder(const std::string& path) const {
  if (auto status = Before("sync folder", path); !status.ok()) return status;
  const FileDescriptor folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.is_open() && fsync(folder.get()) == 0) return absl::OkStatus();
  return SystemError(errno, "sync a folder");
}

absl::Status Disk::Rename(const std::string& from, const std::string& to) const {
  if (auto status = Before("rename", to); !status.ok()) return status;
  return rename(from.c_str(), to.c_str()) == 0 ? absl::OkStatus() : SystemError(errno, "rename a file");
}

absl::Status Disk::Remove(const std::string& path) const {
  if (auto status = Before("remove", path); !status.ok()) return status;
  return unlink(path.c_str()) == 0 || errno == ENOENT ? absl::OkStatus() : SystemError(errno, "remove a file");
}

}  // namespace attention::server
