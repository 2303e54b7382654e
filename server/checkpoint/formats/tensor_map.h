#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/checkpoint/tensor.h"

namespace attention::server {

// A tensor of a file: row-major, little-endian. Does not own its bytes, which may have any alignment.
struct NamedTensor {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;
  absl::Span<const std::byte> data;  // ByteCount(shape, dtype) bytes

  TensorView view() const { return {dtype, shape, data.data()}; }
};

// The tensors and the text metadata of one file. Points into the bytes of the file, which must outlive it, and into its
// own storage, which stays valid when it is moved.
struct TensorMap {
  TensorMap() = default;
  TensorMap(TensorMap&&) = default;
  TensorMap& operator=(TensorMap&&) = default;

  std::vector<NamedTensor> tensors;  // sorted by name, no duplicates
  std::map<std::string, std::string> metadata;

  // Bytes of tensors that the file contains in another form: deflated, in chunks, column-major.
  std::vector<std::vector<std::byte>> storage;

  // The tensor of that name, or null.
  const NamedTensor* Find(absl::string_view name) const;
};

// Sorts the tensors by name, as a TensorMap requires. INVALID_ARGUMENT for a duplicate name.
absl::Status SortByName(std::vector<NamedTensor>& tensors);

// INVALID_ARGUMENT unless a tensor of this dtype and shape takes exactly `bytes` bytes. The error starts with `field`,
// which must be escaped.
absl::Status CheckByteCount(absl::string_view field, DType dtype, absl::Span<const int64_t> shape, uint64_t bytes);

// True if the text contains an ASCII control character.
bool HasControlCharacter(absl::string_view text);

// True for valid UTF-8: shortest forms only, no surrogates.
bool IsUtf8(absl::string_view text);

// The element of a one-element tensor as text: "true", "-12", "0.1", with the fewest digits that identify the number.
// REQUIRES: the tensor has one element.
std::string NumberText(const NamedTensor& scalar);
std::string NumberText(double number);

}  // namespace attention::server
