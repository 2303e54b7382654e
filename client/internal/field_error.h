#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/tensor.h"

namespace attention {

// INVALID_ARGUMENT with the one form of error text: "FIELD: expected EXPECTED, got GOT".
inline absl::Status FieldError(absl::string_view field, const absl::AlphaNum& expected, const absl::AlphaNum& got) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": expected ", expected, ", got ", got));
}

// "[2, 3]"
inline std::string ShapeText(absl::Span<const int64_t> shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

// INVALID_ARGUMENT, with `field`, if the shape and the bytes of a tensor disagree or its type is unknown.
inline absl::Status CheckBytes(absl::string_view field, const TensorRef& tensor) {
  const absl::StatusOr<int64_t> expected = ByteSize(tensor.dtype, tensor.shape);
  if (!expected.ok()) return absl::InvalidArgumentError(absl::StrCat(field, ".", expected.status().message()));
  if (static_cast<uint64_t>(*expected) == tensor.bytes.size()) return absl::OkStatus();
  return FieldError(field,
                    absl::StrCat(*expected, " bytes for shape ", ShapeText(tensor.shape), " of ", Name(tensor.dtype)),
                    tensor.bytes.size());
}

}  // namespace attention
