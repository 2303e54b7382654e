#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace attention::server {

// An open file, closed when the object goes.
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

// The first bytes of an open file, mapped for reading until the object goes. What is written to the file shows. Nobody
// may shorten the file meanwhile: reading past its new end is a fatal signal.
class FileMapping {
 public:
  // `size` may be 0. REQUIRES: the file is no shorter.
  static absl::StatusOr<FileMapping> Map(const FileDescriptor& file, uint64_t size);

  FileMapping(FileMapping&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  FileMapping& operator=(FileMapping&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~FileMapping();

  absl::Span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit FileMapping(absl::Span<const std::byte> bytes) : bytes_(bytes) {}

  absl::Span<const std::byte> bytes_;
};

// The steps that change something on the disk, each one system call, or a loop of one. Errors have the code of the
// system's reason, but FAILED_PRECONDITION for a lack of permission, and name the step, never a path. Thread-safe.
class Disk {
 public:
  // Told of each step before it is done, with a name such as "rename manifest.json"; an error is returned in its place.
  // For tests, which look at what a crash would leave behind. Called by any thread.
  using BeforeStep = std::function<absl::Status(absl::string_view step)>;

  explicit Disk(BeforeStep before_step = nullptr) : before_step_(std::move(before_step)) {}

  // Leaves a folder that is there.
  absl::Status CreateFolder(const std::string& path) const;

  // A new file of a unique name `prefix`XXXXXX, for reading and writing. Puts its path into `path`.
  absl::StatusOr<FileDescriptor> CreateUnique(const std::string& prefix, std::string* path) const;

  // An empty file, new or cut to nothing, for writing.
  absl::StatusOr<FileDescriptor> Create(const std::string& path) const;

  // Room for so many bytes, so that writing them cannot fail for want of it.
  absl::Status Allocate(const FileDescriptor& file, int64_t bytes) const;
  absl::Status WriteAt(const FileDescriptor& file, int64_t offset, absl::Span<const std::byte> bytes) const;
  absl::Status Sync(const FileDescriptor& file) const;
  absl::Status SyncFolder(const std::string& path) const;
  absl::Status Rename(const std::string& from, const std::string& to) const;

  // A file that is not there is as good as removed.
  absl::Status Remove(const std::string& path) const;

 private:
  absl::Status Before(absl::string_view verb, const std::string& path) const;

  const BeforeStep before_step_;
};

}  // namespace attention::server
