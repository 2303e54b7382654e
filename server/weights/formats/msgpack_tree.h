#pragma once

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "server/weights/formats/msgpack_array.h"

namespace attention::server {

struct MsgpackTree {
  std::vector<MsgpackLeaf> leaves;  // as they stand in the file; arrays in chunks are one leaf
  bool is_whole = false;            // else `bytes` ended before the tree did
};

// Reads the tree of a MessagePack file, up to the end of `bytes` if that comes first.
// INVALID_ARGUMENT as ParseMsgpack.
absl::StatusOr<MsgpackTree> ReadMsgpackTree(absl::Span<const std::byte> bytes);

}  // namespace attention::server
