#pragma once

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/checkpoint/formats/msgpack_array.h"
#include "server/checkpoint/formats/tensor_map.h"

namespace attention::server {

struct MsgpackTree {
  std::vector<MsgpackLeaf> leaves;  // as they stand in the file; arrays in chunks are one leaf
  bool is_whole = false;            // else `bytes` ended before the tree did
};

// Reads the tree of a MessagePack file, up to the end of `bytes` if that comes first.
// INVALID_ARGUMENT as ParseMsgpack.
absl::StatusOr<MsgpackTree> ReadMsgpackTree(absl::Span<const std::byte> bytes);

// MessagePack as flax.serialization.to_bytes writes it: a map of maps (or lists) whose leaves are arrays, numbers and
// text. Arrays are extension type 1, numpy's scalars type 3; both hold [shape, name of the dtype, row-major bytes].
// What is too large for that is a map {"__msgpack_chunked_array__": true, "shape": {"0": …}, "chunks": {"0": array,
// …}}, whose chunks are joined in the order of their numbers.

// Reads a whole file. A leaf has as its name the keys that lead to it, joined by "/"; numbers are keys too, and the
// elements of a list are numbered from 0. Arrays are tensors, which stay in `file` unless they are chunked. Numbers,
// arrays without axes, text and booleans become metadata; nil is passed over.
//
// INVALID_ARGUMENT (with the leaf, what was wanted and what came) for anything that is not in MessagePack or ends early
// or late; any other extension type and raw bytes; a key that stands twice, also once as text and once as a number, or
// once joined; keys and text that are not UTF-8, keys with a control character or of no length; more than 64 levels,
// 100,000 leaves and branches, or 512 bytes in a name, so that memory is bounded by these and the size of the file; a
// dtype that there is not here; shapes that do not fit their bytes, or chunks that do not fit together.
absl::StatusOr<TensorMap> ParseMsgpack(absl::Span<const std::byte> file);

// OK if `start` can be the start of a file that ParseMsgpack reads, else the reason as above.
absl::Status CheckMsgpackStart(absl::Span<const std::byte> start);

}  // namespace attention::server
