#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/checkpoint/byte_source.h"
#include "server/checkpoint/tensor.h"

namespace attention::server {

// A tensor of a file: row-major, little-endian. Does not own its bytes, which may have any alignment.
struct NamedTensor {
  std::string name = {};
  DType dtype = DType::kFloat32;
  Shape shape = {};
  absl::Span<const std::byte> data = {};  // ByteCount(shape, dtype) bytes; none before they are read
  uint64_t position = 0;                  // in the file, for the TensorReader of the map

  // OK, or why no layer can use the tensor: its name, its type or its number of axes. Then it has no data.
  absl::Status usable = absl::OkStatus();

  TensorView view() const { return {dtype, shape, data.data()}; }
};

// Reads the data of tensors that were described first. Not thread-safe.
class TensorReader {
 public:
  virtual ~TensorReader() = default;

  // ByteCount(shape, dtype) bytes. Errors as ByteSource::Read; INVALID_ARGUMENT, with the tensor, for damaged data.
  virtual absl::StatusOr<std::vector<std::byte>> Read(const NamedTensor& tensor) const = 0;
};

// The tensors and the text metadata of one file. The tensors either have their data, which are bytes of the file, which
// must outlive this, or of `storage`, which stays valid when it is moved; or `reader` reads the data from the file.
struct TensorMap {
  TensorMap() = default;
  TensorMap(TensorMap&&) = default;
  TensorMap& operator=(TensorMap&&) = default;

  std::vector<NamedTensor> tensors;  // sorted by name, no duplicates
  std::map<std::string, std::string> metadata;

  // Bytes of tensors that the file contains in another form: deflated, in chunks, column-major.
  std::vector<std::vector<std::byte>> storage;

  std::unique_ptr<const TensorReader> reader;  // null if all tensors have their data

  // The tensor of that name, or null.
  const NamedTensor* Find(absl::string_view name) const;
};

// Sorts the tensors by name, as a TensorMap requires. INVALID_ARGUMENT for a duplicate name.
absl::Status SortByName(std::vector<NamedTensor>& tensors);

// INVALID_ARGUMENT unless a tensor of this dtype and shape takes exactly `bytes` bytes. The error starts with `field`,
// which must be escaped.
absl::Status CheckByteCount(absl::string_view field, DType dtype, absl::Span<const int64_t> shape, uint64_t bytes);

// Reads tensors whose bytes are in `file` from `position` on. `file` must outlive it.
std::unique_ptr<const TensorReader> MakeRangeReader(const ByteSource& file);

// INVALID_ARGUMENT if a layer cannot use a tensor of this name, because it is not UTF-8 or has a control character.
// `field` says what has the name.
absl::Status CheckTensorName(absl::string_view field, absl::string_view name);

// The name, escaped if CheckTensorName refuses it, so that it can be shown.
std::string PrintableName(absl::string_view name);

// True if the text contains an ASCII control character.
bool HasControlCharacter(absl::string_view text);

// True for valid UTF-8: shortest forms only, no surrogates.
bool IsUtf8(absl::string_view text);

// The element of a one-element tensor as text: "true", "-12", "0.1", with the fewest digits that identify the number.
// REQUIRES: the tensor has one element.
std::string NumberText(const NamedTensor& scalar);
std::string NumberText(double number);

}  // namespace attention::server
