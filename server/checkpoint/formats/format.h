#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/checkpoint/formats/tensor_map.h"

namespace attention::server {

// A checkpoint file in any of the formats that are read, told apart by their content, never by a file's extension.
// No error message holds a path.

enum class CheckpointFormat { kSafetensors, kMsgpack, kNpz };

// "safetensors", "msgpack" or "npz": also the extension of such files.
absl::string_view FormatName(CheckpointFormat format);

// So many bytes at the start of a file tell its format.
inline constexpr size_t kFormatBytes = 512;

// The format of the file of `file_size` bytes that begins with `start`.
// REQUIRES: `start` holds kFormatBytes, or the whole file if that is shorter.
//
// UNIMPLEMENTED for a pickle, which is never run (PyTorch's .pt, .pth, .bin), with the way to convert it, and for HDF5
// of Keras; INVALID_ARGUMENT for anything else that is not read.
absl::StatusOr<CheckpointFormat> RecogniseFormat(absl::Span<const std::byte> start, uint64_t file_size);

// For a file that arrives in pieces: true once `start`, all that has come of it, holds what describes its tensors. The
// whole file can then be parsed, the rest of its bytes still being unwritten: of a safetensors file that is after the
// header; MessagePack and npz describe their tensors up to their ends.
//
// INVALID_ARGUMENT as soon as `start` cannot be the start of a good file of `file_size` bytes. The descriptions of the
// tensors are not looked into: ParseCheckpoint does that.
absl::StatusOr<bool> HeaderIsThere(CheckpointFormat format, absl::Span<const std::byte> start, uint64_t file_size);

// Reads a whole file. What can stay in `file` stays there, and is pointed to: all of a safetensors file, whose data are
// not touched, and all of MessagePack but arrays in chunks. Only deflated arrays can be larger than `file`.
//
// INVALID_ARGUMENT (with the tensor, what was wanted and what came) for a damaged file; UNIMPLEMENTED for a zip with a
// pickle in it; RESOURCE_EXHAUSTED for arrays that take more than `max_npz_bytes` together when they are inflated.
absl::StatusOr<TensorMap> ParseCheckpoint(CheckpointFormat format, absl::Span<const std::byte> file,
                                          uint64_t max_npz_bytes = std::numeric_limits<uint64_t>::max());

// UNIMPLEMENTED: what stands for every pickle, with the way to convert the file. A pickle is a program that its reader
// runs, so none is read here.
absl::Status PickleError();

}  // namespace attention::server
