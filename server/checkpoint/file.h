#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace attention::server {

// The bytes of a regular file, mapped for reading until the object is destroyed. Later writes to the file are visible.
//
// The file must not be shortened while it is mapped: reading past its new end is a fatal signal. To replace a file that
// may be mapped, write a new file beside it and rename it.
class MappedFile {
 public:
  // Maps a whole file. Errors contain `name` instead of `path`.
  // INVALID_ARGUMENT if it is not a regular file, otherwise the code of the system error: NOT_FOUND, PERMISSION_DENIED,
  // …
  static absl::StatusOr<MappedFile> Open(const std::string& path, const std::string& name);

  // Maps the first `size` bytes of an open file, which may be closed afterwards. `size` may be 0.
  // Errors contain `name` and have the code of the system error. REQUIRES: the file has at least `size` bytes.
  static absl::StatusOr<MappedFile> Map(int fd, uint64_t size, const std::string& name);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  absl::Span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit MappedFile(absl::Span<const std::byte> bytes) : bytes_(bytes) {}

  absl::Span<const std::byte> bytes_;
};

// Creates or overwrites a file. `name` and error codes as in MappedFile::Open.
absl::Status WriteFile(const std::string& path, const std::string& name, absl::Span<const std::byte> bytes);

}  // namespace attention::server
