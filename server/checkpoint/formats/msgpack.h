#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/checkpoint/byte_source.h"
#include "server/checkpoint/formats/tensor_map.h"

namespace attention::server {

// MessagePack as flax.serialization.to_bytes writes it: a map of maps (or lists) whose leaves are arrays, numbers and
// text. Arrays are extension type 1 and numpy scalars type 3; both contain [shape, dtype name, row-major bytes]. An
// array that is too large for an extension is a map {"__msgpack_chunked_array__": true, "shape": {"0": …}, "chunks":
// {"0": array, …}}, whose chunks are joined in numerical order.

// Reads a whole file. The name of a leaf is the path of keys to it, joined by "/". Keys may be numbers; the items of a
// list are numbered from 0. Arrays become tensors, which point into `file` unless they are chunked. Numbers, arrays
// without axes, text and booleans become metadata; nil is ignored.
//
// Raw bytes, other extension types, text that is not UTF-8, an unknown dtype, too many axes, and arrays below keys that
// are empty, not UTF-8 or contain a control character become tensors that are not usable.
//
// INVALID_ARGUMENT, with the leaf, for anything that is not MessagePack or is shorter or longer than its map; a
// duplicate path, also if the keys are text and a number, or one key contains the "/"; more than 64 levels, 100,000
// leaves and branches, or 512 bytes in a name (these bound the memory together with the size of the file); shapes that
// do not match their bytes, and chunks that do not match each other.
absl::StatusOr<TensorMap> ParseMsgpack(absl::Span<const std::byte> file);

// The same without the data of the tensors, which the reader of the map reads; only chunked arrays stay in memory.
// While it runs, the whole file is in memory. `file` must outlive the map. RESOURCE_EXHAUSTED for a file above
// `max_bytes`.
absl::StatusOr<TensorMap> DescribeMsgpack(const ByteSource& file, uint64_t max_bytes);

// OK if `start` can be the start of a file that ParseMsgpack reads, otherwise an error of ParseMsgpack.
absl::Status CheckMsgpackStart(absl::Span<const std::byte> start);

}  // namespace attention::server
