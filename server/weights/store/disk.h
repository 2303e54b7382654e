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
#include "server/checkpoint/file.h"

namespace attention::server {

// The operations that change the disk. Each is one system call, or a loop of one, so that a crash can only happen
// between two of them. Errors have the code of the system error, except that missing permission is FAILED_PRECONDITION;
// their messages name the operation and never contain a path. Thread-safe.
class Disk {
 public:
  // Called before each operation, by any thread, with a name such as "rename manifest.json". If it returns an error,
  // the operation is skipped and returns that error. For tests, which examine what a crash would leave on the disk.
  using BeforeStep = std::function<absl::Status(absl::string_view step)>;

  explicit Disk(BeforeStep before_step = nullptr) : before_step_(std::move(before_step)) {}

  // Does nothing if the folder exists. New folders and files get the group and the permissions of the folder that they
  // are created in, except for executing files, regardless of the umask: whoever may read the folder can read them.
  absl::Status CreateFolder(const std::string& path) const;

  // Creates a file for reading and writing with the unique name `prefix`XXXXXX. Sets `path` to its path.
  absl::StatusOr<FileDescriptor> CreateUnique(const std::string& prefix, std::string* path) const;

  // Opens an empty file for writing: creates it, or truncates an existing one.
  absl::StatusOr<FileDescriptor> Create(const std::string& path) const;

  // Makes an empty file `bytes` bytes long without taking space for them. RESOURCE_EXHAUSTED if they would not fit on
  // the disk now; writing them can still fail.
  absl::Status Resize(const FileDescriptor& file, int64_t bytes) const;
  absl::Status WriteAt(const FileDescriptor& file, int64_t offset, absl::Span<const std::byte> bytes) const;
  absl::Status Sync(const FileDescriptor& file) const;
  absl::Status SyncFolder(const std::string& path) const;
  absl::Status Rename(const std::string& from, const std::string& to) const;

  // OK if the file does not exist.
  absl::Status Remove(const std::string& path) const;

 private:
  absl::Status Before(absl::string_view verb, const std::string& path) const;

  const BeforeStep before_step_;
};

}  // namespace attention::server
