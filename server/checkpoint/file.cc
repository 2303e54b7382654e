#include "server/checkpoint/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "server/checkpoint/field_error.h"

namespace attention::server {
namespace {

absl::Status SystemError(const std::string& name, absl::string_view what) {
  return absl::ErrnoToStatus(errno, absl::StrCat(EscapeForMessage(name), ": cannot ", what));
}

}  // namespace

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path, const std::string& name) {
  // O_NONBLOCK: opening a pipe without a writer would block before the file type is checked.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return SystemError(name, "open");
  const auto close_fd = absl::MakeCleanup([fd] { close(fd); });
  struct stat info;
  if (fstat(fd, &info) != 0) return SystemError(name, "examine");
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(EscapeForMessage(name), ": not a regular file"));
  }
  return Map(fd, static_cast<uint64_t>(info.st_size), name);
}

absl::StatusOr<MappedFile> MappedFile::Map(int fd, uint64_t size, const std::string& name) {
  // mmap fails for a length of 0.
  if (size == 0) return MappedFile({});
  void* const start = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  if (start == MAP_FAILED) return SystemError(name, "map");
  return MappedFile({static_cast<const std::byte*>(start), static_cast<size_t>(size)});
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
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
