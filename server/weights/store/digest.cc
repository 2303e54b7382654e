#include "server/weights/store/digest.h"

#include <algorithm>
#include <vector>

#include "server/checkpoint/sha256.h"

namespace attention::server {

absl::StatusOr<std::string> DigestOf(const ByteSource& file) {
  return DigestOf(file, [](uint64_t, absl::Span<const std::byte>) { return absl::OkStatus(); });
}

absl::StatusOr<std::string> DigestOf(
    const ByteSource& file, absl::FunctionRef<absl::Status(uint64_t offset, absl::Span<const std::byte> piece)> use) {
  constexpr uint64_t kPieceBytes = 1 << 20;
  Sha256 digest;
  std::vector<std::byte> buffer(std::min(file.size(), kPieceBytes));
  for (uint64_t offset = 0; offset < file.size(); offset += kPieceBytes) {
    const auto piece = absl::MakeSpan(buffer).first(std::min(file.size() - offset, kPieceBytes));
    if (absl::Status status = file.Read(offset, piece); !status.ok()) return status;
    digest.Update(piece);
    if (absl::Status status = use(offset, piece); !status.ok()) return status;
  }
  return digest.Finish();
}

}  // namespace attention::server
