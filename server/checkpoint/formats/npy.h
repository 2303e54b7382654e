#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/checkpoint/formats/tensor_map.h"
#include "server/checkpoint/tensor.h"

namespace attention::server {

// What the dict at the start of a .npy file says.
struct NpyHeader {
  DType dtype = DType::kFloat32;
  Shape shape;
  bool column_major = false;
};

// Reads the dict, a Python literal with exactly the keys descr, fortran_order and shape. INVALID_ARGUMENT as ParseNpy.
absl::StatusOr<NpyHeader> ParseNpyHeader(absl::string_view text);

// Writes the dict, without padding. INVALID_ARGUMENT for bfloat16.
absl::StatusOr<std::string> MakeNpyHeader(DType dtype, absl::Span<const int64_t> shape);

// numpy's .npy format: one array, versions 1.0, 2.0 and 3.0.

// Reads a whole file. The map holds its one tensor, which has no name. A row-major array stays in `file`; a
// column-major one (fortran_order) is turned into the map's storage.
//
// INVALID_ARGUMENT for anything but a little-endian array of bool, float16, float32, float64 or integers with exactly
// its bytes after the header. Object arrays (pickle) are refused unread.
absl::StatusOr<TensorMap> ParseNpy(absl::Span<const std::byte> file);

// Writes a whole file of version 1.0, its data aligned to 64 bytes; the name is not written.
// INVALID_ARGUMENT for bfloat16, which the format does not have, and for bytes that do not fit the shape.
absl::StatusOr<std::vector<std::byte>> SerializeNpy(const NamedTensor& tensor);

}  // namespace attention::server
