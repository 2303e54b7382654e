#include "server/weights/store/disk.h"

#include <fcntl.h>
#include <sys/stat.h>
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

}  // namespace

FileDescriptor::~FileDescriptor() {
  if (is_open()) close(fd_);
}

absl::Status Disk::Before(absl::string_view verb, const std::string& path) const {
  if (before_step_ == nullptr) return absl::OkStatus();
  return before_step_(absl::StrCat(verb, " ", path.substr(path.rfind('/') + 1)));
}

absl::Status Disk::CreateFolder(const std::string& path) const {
  if (auto status = Before("mkdir", path); !status.ok()) return status;
  struct stat info;
  if (mkdir(path.c_str(), 0777) == 0) return absl::OkStatus();
  const int error = errno;
  if (error == EEXIST && stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) return absl::OkStatus();
  return SystemError(error, "create a folder");
}

absl::StatusOr<FileDescriptor> Disk::CreateUnique(const std::string& prefix, std::string* path) const {
  if (auto status = Before("create", prefix); !status.ok()) return status;
  std::string name = prefix + "XXXXXX";
  FileDescriptor file(mkostemp(name.data(), O_CLOEXEC));
  if (!file.is_open()) return SystemError(errno, "create a file");
  *path = std::move(name);
  return file;
}

absl::StatusOr<FileDescriptor> Disk::Create(const std::string& path) const {
  if (auto status = Before("create", path); !status.ok()) return status;
  FileDescriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file.is_open()) return SystemError(errno, "create a file");
  return file;
}

absl::Status Disk::Allocate(const FileDescriptor& file, int64_t bytes) const {
  if (auto status = Before("allocate", ""); !status.ok()) return status;
  if (bytes == 0) return absl::OkStatus();
  const int error = posix_fallocate(file.get(), 0, bytes);
  if (error == 0) return absl::OkStatus();
  // EFBIG: larger than the file system allows for any file.
  if (error == ENOSPC || error == EFBIG) {
    return absl::ResourceExhaustedError(absl::StrCat("weights folder: the disk has no room for ", bytes, " bytes"));
  }
  return SystemError(error, absl::StrCat("allocate ", bytes, " bytes"));
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
