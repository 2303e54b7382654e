#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/checkpoint/byte_source.h"
#include "server/checkpoint/formats/tensor_map.h"

namespace attention::server {

// One format of checkpoint files. CheckpointFormats() is the only list of them: to add a format, write its parser and
// add one entry to the table in format.cc.
struct CheckpointFormat {
  absl::string_view name;       // "npz"; also the extension of such files
  absl::string_view signature;  // how the first bytes tell the format, for error texts

  // True if a file that starts with these bytes has this format. At most one format returns true.
  bool (*recognises)(absl::string_view start);

  // The number of bytes at the start of a file of `file_size` bytes that describe all tensors: `describe` reads no
  // others. INVALID_ARGUMENT if `start` cannot be the start of a valid file.
  // REQUIRES: `start` has at least kFormatBytes, or is the whole file.
  absl::StatusOr<uint64_t> (*header_end)(absl::Span<const std::byte> start, uint64_t file_size);

  // INVALID_ARGUMENT if `start`, of any length, cannot be the start of a valid file. Parses all of it. May be null.
  absl::Status (*check_start)(absl::Span<const std::byte> start);

  // Reads the names, types and shapes of all tensors of a file, which must outlive the map. Their data are read later,
  // with the reader of the map; only chunked MessagePack arrays are read at once.
  //
  // INVALID_ARGUMENT, with the tensor, for a damaged file; UNIMPLEMENTED for a zip file that contains a pickle;
  // RESOURCE_EXHAUSTED for a file above `max_bytes` that has to be in memory as a whole (MessagePack).
  absl::StatusOr<TensorMap> (*describe)(const ByteSource& file, uint64_t max_bytes);
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

// The same for a file, of which it reads the first bytes. Errors also as ByteSource::Read.
absl::StatusOr<const CheckpointFormat*> RecogniseFormat(const ByteSource& file);

}  // namespace attention::server
