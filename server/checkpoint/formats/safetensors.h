#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/checkpoint/byte_source.h"
#include "server/checkpoint/formats/tensor_map.h"
#include "server/checkpoint/tensor.h"

namespace attention::server {

// The safetensors format: the header length as eight bytes little-endian, the header (a JSON object that maps names to
// dtype, shape and data_offsets, and "__metadata__" to an object of strings), then the data of all tensors end to end.

// Reads a whole file. The tensors point into `file`; nothing is copied and no alignment is required. Memory is
// proportional to the actual size of the header, regardless of the sizes in it.
//
// Strict: INVALID_ARGUMENT, with the tensor, for a header length beyond the file or 100 MB; a header that is not one
// JSON object from its first byte, is not UTF-8, or is nested deeper than the format; a duplicate name, field or
// "__metadata__", also with different escapes; an unknown field; a shape that does not match the data_offsets; data
// that the tensors do not cover exactly, without gaps or overlaps. An unknown dtype, more than kMaxAxes axes and a
// control character in a name only make the tensor unusable.
absl::StatusOr<TensorMap> ParseSafetensors(absl::Span<const std::byte> file);

// The same without the data of the tensors, which the reader of the map reads. `file` must outlive the map.
absl::StatusOr<TensorMap> DescribeSafetensors(const ByteSource& file);

// Bytes of a file of `file_size` bytes up to the data of its tensors, from its first bytes.
// INVALID_ARGUMENT for a header length beyond the file or 100 MB, and for a header that does not start with '{'.
// REQUIRES: `start` has at least nine bytes or is the whole file.
absl::StatusOr<uint64_t> SafetensorsHeaderEnd(absl::Span<const std::byte> start, uint64_t file_size);

// Writes a whole file. Equal content gives equal bytes: the widest dtypes are first, then the order is by name, so each
// tensor is aligned to its element size.
// INVALID_ARGUMENT for anything that ParseSafetensors refuses.
absl::StatusOr<std::vector<std::byte>> SerializeSafetensors(absl::Span<const NamedTensor> tensors,
                                                            const std::map<std::string, std::string>& metadata = {});

// An entry of the header. `begin` and `end` are offsets from the start of the data.
struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;
  uint64_t begin = 0;
  uint64_t end = 0;
  absl::Status usable;  // as in NamedTensor
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // sorted by name, no duplicates
  std::map<std::string, std::string> metadata;
};

// Reads the JSON text of a header. INVALID_ARGUMENT as ParseSafetensors, except for errors that concern the data.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view text);

// The name of the type in the format: "F32".
absl::string_view SafetensorsDTypeName(DType dtype);

}  // namespace attention::server
