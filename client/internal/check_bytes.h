#pragma once

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/tensor.h"

namespace attention {

// INVALID_ARGUMENT, with `field`, if the shape and the bytes of a tensor disagree or its type is unknown.
inline absl::Status CheckBytes(absl::string_view field, const TensorRef& tensor) {
  const absl::StatusOr<int64_t> expected = ByteSize(tensor.dtype, tensor.shape);
  if (!expected.ok()) return absl::InvalidArgumentError(absl::StrCat(field, ".", expected.status().message()));
  if (static_cast<uint64_t>(*expected) == tensor.bytes.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, ": expected ", *expected, " bytes for shape [",
                                                 absl::StrJoin(tensor.shape, ", "), "] of ", Name(tensor.dtype),
                                                 ", got ", tensor.bytes.size()));
}

}  // namespace attention
