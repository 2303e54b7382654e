#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/checkpoint/byte_source.h"

namespace attention::server {

// The SHA-256 of a file, as Sha256::Finish returns it. It is read in pieces of a mebibyte. `use` gets each
// piece with its offset. Errors as ByteSource::Read, or of `use`.
absl::StatusOr<std::string> DigestOf(const ByteSource& file);
absl::StatusOr<std::string> DigestOf(
    const ByteSource& file, absl::FunctionRef<absl::Status(uint64_t offset, absl::Span<const std::byte> piece)> use);

}  // namespace attention::server
