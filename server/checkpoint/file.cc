#include "server/checkpoint/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/checkpoint/field_error.h"

namespace attention::server {
namespace {

absl::Status SystemError(const std::string& name, absl::string_view what) {
  return absl::ErrnoToStatus(errno, absl::StrCat(EscapeForMessage(name), ": cannot ", what));
}

}  // namespace

FileDescriptor::~FileDescriptor() {
  if (is_open()) close(fd_);
}

absl::Status FileReader::Read(uint64_t offset, absl::Span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t count = pread(fd_, to.data(), to.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EIO) {
      return absl::DataLossError(absl::StrCat(EscapeForMessage(name_), ": cannot read byte ", offset, ": disk error"));
    }
    if (count < 0) return SystemError(name_, "read");
    if (count == 0) {
      return absl::AbortedError(absl::StrCat(EscapeForMessage(name_), ": expected ", size_, " bytes, got at most ",
                                             offset, ": the file became shorter while it was read"));
    }
    offset += static_cast<uint64_t>(count);
    to.remove_prefix(static_cast<size_t>(count));
  }
  return absl::OkStatus();
}

absl::StatusOr<OpenedFile> OpenFile(const std::string& path, const std::string& name) {
  // O_NONBLOCK: opening a pipe without a writer would block before the file type is checked.
  FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) return SystemError(name, "open");
  struct stat info;
  if (fstat(file.get(), &info) != 0) return SystemError(name, "examine");
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(EscapeForMessage(name), ": not a regular file"));
  }
  const FileReader bytes(file, static_cast<uint64_t>(info.st_size), name);
  return OpenedFile{std::move(file), bytes};
}

absl::StatusOr<std::vector<std::byte>> ReadFile(const std::string& path, const std::string& name) {
  const absl::StatusOr<OpenedFile> file = OpenFile(path, name);
  if (!file.ok()) return file.status();
  return ReadRange(file->bytes, 0, file->bytes.size());
}

absl::Status WriteFile(const std::string& path, const std::string& name, absl::Span<const std::byte> bytes) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return SystemError(name, "open");
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      absl::Status status = SystemError(name, "write");
      close(fd);
      return status;
    }
    bytes.remove_prefix(written);
  }
  // Some file systems report a full disk only on close.
  return close(fd) == 0 ? absl::OkStatus() : SystemError(name, "write");
}

}  // namespace attention::server
