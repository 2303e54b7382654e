#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/checkpoint/formats/tensor_map.h"

namespace attention::server {

// The .npy format of numpy: one array without a name, versions 1.0, 2.0 and 3.0.

// Reads a whole file. The map contains one tensor with an empty name. A row-major array points into `file`; a
// column-major one (fortran_order) is transposed into the storage of the map.
//
// INVALID_ARGUMENT for anything but a little-endian array of bool, float16, float32, float64 or an integer type whose
// data fill the rest of the file exactly. Object arrays (pickle) are refused without reading them.
absl::StatusOr<TensorMap> ParseNpy(absl::Span<const std::byte> file);

// The start of a file, which describes the array.
struct NpyHeader {
  DType dtype = DType::kFloat32;
  Shape shape;
  bool column_major = false;
  uint64_t data_at = 0;  // bytes before the data

  // OK, or why the array cannot be read: its type or its number of axes. Then its size is not known.
  absl::Status usable = absl::OkStatus();
};

// Bytes before the data of a file of `file_size` bytes, from its first bytes. INVALID_ARGUMENT as ParseNpy.
// REQUIRES: `start` has at least 12 bytes or is the whole file.
absl::StatusOr<uint64_t> NpyHeaderEnd(absl::Span<const std::byte> start, uint64_t file_size);

// Reads the header of a file of `file_size` bytes. INVALID_ARGUMENT as ParseNpy, except for what `usable` says.
// REQUIRES: `start` has at least NpyHeaderEnd bytes.
absl::StatusOr<NpyHeader> ParseNpyHeader(absl::Span<const std::byte> start, uint64_t file_size);

// The data of an array with this header in row-major order. REQUIRES: it has the bytes that the header states.
std::vector<std::byte> InRowMajor(std::vector<std::byte> data, const NpyHeader& header);

// Writes a whole file of version 1.0 with the data aligned to 64 bytes. The name of the tensor is not written.
// INVALID_ARGUMENT for bfloat16, which the format does not support, and for data that do not match the shape.
absl::StatusOr<std::vector<std::byte>> SerializeNpy(const NamedTensor& tensor);

}  // namespace attention::server
