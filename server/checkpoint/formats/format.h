#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/checkpoint/formats/tensor_map.h"

namespace attention::server {

// One format of checkpoint files. CheckpointFormats() is the only list of them: to add a format, write its parser and
// add one entry to the table in format.cc.
struct CheckpointFormat {
  absl::string_view name;       // "npz"; also the extension of such files
  absl::string_view signature;  // how the first bytes tell the format, for error texts

  // True if a file that starts with these bytes has this format. At most one format returns true.
  bool (*recognises)(absl::string_view start);

  // The descriptions of all tensors precede their data, so has_header returns true early and takes constant time.
  // Otherwise it parses all of `start`, so call it rarely.
  bool header_first = false;

  // For a file of `file_size` bytes that arrives in pieces: true once `start`, all that has arrived, contains the
  // descriptions of all tensors. `parse` then succeeds on the whole file even though the rest is not written yet.
  // INVALID_ARGUMENT as soon as `start` cannot be the start of a valid file. Does not check the descriptions.
  absl::StatusOr<bool> (*has_header)(absl::Span<const std::byte> start, uint64_t file_size);

  // Reads a whole file. The tensors point into `file` where the bytes there can be used directly: all data of
  // safetensors, which are not read, and MessagePack arrays that are not chunked. Only deflated arrays of npz can take
  // more memory than `file`; `max_bytes` limits the memory of all arrays of an npz file.
  //
  // INVALID_ARGUMENT, with the tensor, for a damaged file; UNIMPLEMENTED for a zip file that contains a pickle;
  // RESOURCE_EXHAUSTED for arrays above `max_bytes`.
  absl::StatusOr<TensorMap> (*parse)(absl::Span<const std::byte> file, uint64_t max_bytes);
};

inline constexpr uint64_t kUnlimitedBytes = std::numeric_limits<uint64_t>::max();

// All formats that are read.
absl::Span<const CheckpointFormat> CheckpointFormats();

// The format of that name, or null.
const CheckpointFormat* FindCheckpointFormat(absl::string_view name);

// ".safetensors, .msgpack or .npz", for error texts.
std::string CheckpointExtensions();

// RecogniseFormat needs this many bytes of a file.
inline constexpr size_t kFormatBytes = 512;

// The format of the file of `file_size` bytes that starts with `start`. Only the content counts, never the extension.
// REQUIRES: `start` has at least kFormatBytes, or is the whole file.
//
// UNIMPLEMENTED, with a way to convert the file, for a pickle (PyTorch's .pt, .pth, .bin) and for HDF5 (Keras);
// INVALID_ARGUMENT for any other format. Errors contain no path.
absl::StatusOr<const CheckpointFormat*> RecogniseFormat(absl::Span<const std::byte> start, uint64_t file_size);

}  // namespace attention::server
