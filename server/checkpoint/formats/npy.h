#pragma once

#include <cstddef>
#include <string>
#include <vector>

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

// Writes a whole file of version 1.0 with the data aligned to 64 bytes. The name of the tensor is not written.
// INVALID_ARGUMENT for bfloat16, which the format does not support, and for data that do not match the shape.
absl::StatusOr<std::vector<std::byte>> SerializeNpy(const NamedTensor& tensor);

}  // namespace attention::server
