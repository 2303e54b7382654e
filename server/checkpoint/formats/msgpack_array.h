#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/checkpoint/tensor.h"

namespace attention::server {

// An array of a MessagePack file. Its data is the concatenation of the pieces.
struct MsgpackArray {
  DType dtype = DType::kFloat32;
  Shape shape;
  std::vector<absl::Span<const std::byte>> pieces;
  absl::Status usable = absl::OkStatus();  // as in NamedTensor; no data if it is an error
};

// A leaf of the tree in a MessagePack file.
struct MsgpackLeaf {
  std::string name;
  bool is_array = false;
  MsgpackArray array;
  std::string text;                        // the value, if it is not an array
  absl::Status usable = absl::OkStatus();  // an error if the path has a key that no layer can have
};

// The key that marks a map as an array in chunks.
inline constexpr absl::string_view kChunkedArray = "__msgpack_chunked_array__";

// Reads the payload of a flax extension, [shape, dtype, bytes]. The single piece points into `payload`.
// INVALID_ARGUMENT, without the name of the array; an unknown dtype and too many axes only make it unusable.
absl::StatusOr<MsgpackArray> ParseMsgpackArray(absl::Span<const std::byte> payload);

// Joins an array in chunks, given the leaves of its map. The pieces point into the file.
// INVALID_ARGUMENT, with `name`, the path of the map, which is a prefix of the name of each leaf.
absl::StatusOr<MsgpackArray> JoinMsgpackChunks(absl::string_view name, absl::Span<const MsgpackLeaf> leaves);

}  // namespace attention::server
