#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/engine/tensor.h"

namespace attention::server {

// The most axes that a tensor of a file may have.
inline constexpr int kMaxAxes = 8;

// A tensor in a file: row-major, little-endian, its bytes somebody else's, at any address, aligned or not.
struct NamedTensor {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;
  absl::Span<const std::byte> data;  // ByteCount(shape, dtype) bytes

  TensorView view() const { return {dtype, shape, data.data()}; }
};

// The tensors of one file, and the text that the file carries beside them. Points into the bytes of the file, which
// must outlive it.
struct TensorMap {
  std::vector<NamedTensor> tensors;  // sorted by name, each name once
  std::map<std::string, std::string> metadata;

  // The tensor of that name, or null.
  const NamedTensor* Find(absl::string_view name) const;
};

}  // namespace attention::server
