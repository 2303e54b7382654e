#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/checkpoint/tensor.h"

namespace attention::server {

// An array of a MessagePack file: its bytes are those of the pieces, one after the other.
struct MsgpackArray {
  DType dtype = DType::kFloat32;
  Shape shape;
  std::vector<absl::Span<const std::byte>> pieces;
};

// A leaf of the file's tree.
struct MsgpackLeaf {
  std::string name;
  bool is_array = false;
  MsgpackArray array;
  std::string text;  // of anything else
};

// The key that makes a map an array in chunks.
inline constexpr absl::string_view kChunkedArray = "__msgpack_chunked_array__";

// Reads what an extension of flax holds: [shape, dtype, bytes]. The one piece points into `payload`.
// INVALID_ARGUMENT, without the array's name.
absl::StatusOr<MsgpackArray> ParseMsgpackArray(absl::Span<const std::byte> payload);

// Puts the chunks of an array together, from the leaves of the map that stands for it; the bytes stay where they are.
// INVALID_ARGUMENT, with the array's name, which begins all names of the leaves.
absl::StatusOr<MsgpackArray> JoinMsgpackChunks(absl::string_view name, absl::Span<const MsgpackLeaf> leaves);

}  // namespace attention::server
