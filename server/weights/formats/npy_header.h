#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/engine/tensor.h"

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

}  // namespace attention::server
