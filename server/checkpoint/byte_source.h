#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace attention::server {

// The bytes of a file, which are read when they are needed. Thread-safe.
class ByteSource {
 public:
  virtual ~ByteSource() = default;

  virtual uint64_t size() const = 0;

  // Fills `to` with the bytes from `offset`. REQUIRES: size() has as many bytes after `offset`.
  virtual absl::Status Read(uint64_t offset, absl::Span<std::byte> to) const = 0;
};

// Bytes in memory, which must outlive this.
class MemorySource : public ByteSource {
 public:
  explicit MemorySource(absl::Span<const std::byte> bytes) : bytes_(bytes) {}

  uint64_t size() const override { return bytes_.size(); }
  absl::Status Read(uint64_t offset, absl::Span<std::byte> to) const override;

 private:
  const absl::Span<const std::byte> bytes_;
};

// The `size` bytes from `offset`. Errors and precondition as ByteSource::Read.
absl::StatusOr<std::vector<std::byte>> ReadRange(const ByteSource& source, uint64_t offset, uint64_t size);

}  // namespace attention::server
