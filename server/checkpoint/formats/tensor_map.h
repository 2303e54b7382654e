#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/checkpoint/tensor.h"

namespace attention::server {

// A tensor in a file: row-major, little-endian, its bytes somebody else's, at any address, aligned or not.
struct NamedTensor {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;
  absl::Span<const std::byte> data;  // ByteCount(shape, dtype) bytes

  TensorView view() const { return {dtype, shape, data.data()}; }
};

// The tensors of one file, and the text that the file carries beside them. Points into the bytes of the file, which
// must outlive it, and into storage of its own, which moves along with it.
struct TensorMap {
  TensorMap() = default;
  TensorMap(TensorMap&&) = default;
  TensorMap& operator=(TensorMap&&) = default;

  std::vector<NamedTensor> tensors;  // sorted by name, each name once
  std::map<std::string, std::string> metadata;

  // Bytes of tensors that do not stand in the file as they are: inflated, joined from chunks, turned from column-major.
  std::vector<std::vector<std::byte>> storage;

  // The tensor of that name, or null.
  const NamedTensor* Find(absl::string_view name) const;
};

// Brings the tensors into the order that a TensorMap has. INVALID_ARGUMENT if a name stands twice.
absl::Status SortByName(std::vector<NamedTensor>& tensors);

// True for an ASCII control character anywhere in the text.
bool HasControlCharacter(absl::string_view text);

// True if the text is UTF-8 as Unicode has it: shortest forms, no surrogates.
bool IsUtf8(absl::string_view text);

// The only element of a tensor: "true", "-12", "0.1", with as many digits as tell it from its neighbours.
// REQUIRES: the tensor has one element.
std::string NumberText(const NamedTensor& scalar);

// The same of a number that stands by itself.
std::string NumberText(double number);

}  // namespace attention::server
