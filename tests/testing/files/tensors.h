#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/checkpoint/formats/format.h"

namespace attention::test {

// Reads the data of all usable tensors with the reader of the map, which is then removed.
absl::Status ReadAllTensors(server::TensorMap& map);

// A whole checkpoint file of any format. The tensors have their data, and do not point into `file`.
absl::StatusOr<server::TensorMap> ParseCheckpoint(absl::Span<const std::byte> file);

// The bytes of a text.
inline absl::Span<const std::byte> BytesOf(absl::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

}  // namespace attention::test
