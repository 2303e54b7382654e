#include "server/checkpoint/byte_source.h"

#include <cstring>

namespace attention::server {

absl::Status MemorySource::Read(uint64_t offset, absl::Span<std::byte> to) const {
  // memcpy must not get a null pointer, which an empty span has.
  if (!to.empty()) std::memcpy(to.data(), bytes_.data() + offset, to.size());
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::byte>> ReadRange(const ByteSource& source, uint64_t offset, uint64_t size) {
  std::vector<std::byte> bytes(size);
  if (absl::Status status = source.Read(offset, absl::MakeSpan(bytes)); !status.ok()) return status;
  return bytes;
}

}  // namespace attention::server
