#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "server/checkpoint/formats/format.h"

namespace attention::fuzz {

inline absl::Span<const std::byte> Bytes(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const std::byte*>(data), size};
}

// Ends the program unless every tensor holds as many readable bytes as its shape says, and the names are sorted, each
// there once.
void CheckTensors(const server::TensorMap& map);

// Ends the program unless all that is asked of a file before it is parsed agrees with how it parses: a file that is
// read is never refused while it arrives.
void CheckArrival(server::CheckpointFormat format, absl::Span<const std::byte> file);

}  // namespace attention::fuzz
