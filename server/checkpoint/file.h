#pragma once

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace attention::server {

// A whole regular file, mapped for reading until the object goes.
//
// Nobody may shorten the file meanwhile: reading past its new end is a fatal signal. Whoever replaces a file that
// others may have mapped writes a new one beside it and renames it.
class MappedFile {
 public:
  // `name` stands for the file in error messages, which never hold `path`.
  // INVALID_ARGUMENT if it is not a regular file, else the code of the system's reason: NOT_FOUND, PERMISSION_DENIED, …
  static absl::StatusOr<MappedFile> Open(const std::string& path, const std::string& name);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  absl::Span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit MappedFile(absl::Span<const std::byte> bytes) : bytes_(bytes) {}

  absl::Span<const std::byte> bytes_;
};

// Writes a file, over what was there. `name` and error codes as in MappedFile::Open.
absl::Status WriteFile(const std::string& path, const std::string& name, absl::Span<const std::byte> bytes);

}  // namespace attention::server
