#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/checkpoint/byte_source.h"

namespace attention::server {

// An open file. The destructor closes it.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor();

  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }

 private:
  int fd_;
};

// The first `size` bytes of an open file, which must outlive this. The file is read, not mapped: if another process
// shortens it, or the disk fails, the result is an error instead of a fatal signal.
class FileReader : public ByteSource {
 public:
  // Errors contain `name` instead of a path.
  FileReader(const FileDescriptor& file, uint64_t size, std::string name)
      : fd_(file.get()), size_(size), name_(std::move(name)) {}

  uint64_t size() const override { return size_; }

  // ABORTED if the file has become shorter; DATA_LOSS if the disk cannot be read; otherwise the code of the system
  // error.
  absl::Status Read(uint64_t offset, absl::Span<std::byte> to) const override;

 private:
  int fd_;
  uint64_t size_;
  std::string name_;
};

// A file that is open for reading.
struct OpenedFile {
  FileDescriptor file;
  FileReader bytes;
};

// Opens a regular file. Errors contain `name` instead of `path`. INVALID_ARGUMENT if it is not a regular file,
// otherwise the code of the system error: NOT_FOUND, PERMISSION_DENIED, …
absl::StatusOr<OpenedFile> OpenFile(const std::string& path, const std::string& name);

// A whole regular file. Errors as OpenFile and FileReader::Read.
absl::StatusOr<std::vector<std::byte>> ReadFile(const std::string& path, const std::string& name);

// Creates or overwrites a file. `name` and error codes as in OpenFile.
absl::Status WriteFile(const std::string& path, const std::string& name, absl::Span<const std::byte> bytes);

}  // namespace attention::server
