#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/checkpoint/formats/tensor_map.h"
#include "server/checkpoint/tensor.h"

namespace attention::server {

// One entry of a safetensors header, as it stands there: `begin` and `end` count from the start of the data section.
struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;
  uint64_t begin = 0;
  uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // sorted by name, each name once
  std::map<std::string, std::string> metadata;
};

// Reads the JSON text of a header. INVALID_ARGUMENT for all that ParseSafetensors names, but for what concerns the
// data.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view text);

// "F32", …: the format's name of a type.
absl::string_view SafetensorsDTypeName(DType dtype);

// The safetensors format: eight bytes little-endian header length, the header (a JSON object: name to dtype, shape and
// data_offsets; "__metadata__" to an object of strings), then the data of all tensors end to end.

// Reads a whole file. The views point into `file`; nothing is copied and no alignment is asked for. Memory is taken in
// proportion to the header that is really there, whatever sizes it claims.
//
// Strict: INVALID_ARGUMENT (with the tensor, what was wanted and what was found) for a header length beyond the file or
// 100 MB; a header that is not one JSON object from its first byte, not UTF-8, or nested deeper than the format; a
// name, field or "__metadata__" that stands twice, also if it is spelled differently; an unknown field or dtype; more
// than kMaxAxes axes; a shape whose size is not that of its bytes; data that the tensors do not cover exactly, without
// holes or overlaps; a control character in a name.
absl::StatusOr<TensorMap> ParseSafetensors(absl::Span<const std::byte> file);

// For a file of `file_size` bytes of which only the first have come: true once `start` holds the header.
// INVALID_ARGUMENT for a header length beyond the file or 100 MB, and a header that does not begin with '{'.
absl::StatusOr<bool> SafetensorsHeaderIsThere(absl::Span<const std::byte> start, uint64_t file_size);

// Writes a whole file, the same bytes for the same content: wide dtypes first, then by name, so that each tensor is
// aligned to its element. Never modifies the data.
// INVALID_ARGUMENT for what ParseSafetensors would refuse: a name twice, not UTF-8, bytes that do not fit the shape.
absl::StatusOr<std::vector<std::byte>> SerializeSafetensors(absl::Span<const NamedTensor> tensors,
                                                            const std::map<std::string, std::string>& metadata = {});

}  // namespace attention::server
