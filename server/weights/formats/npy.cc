#include "server/weights/formats/npy.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/weights/formats/echo.h"
#include "server/weights/formats/npy_header.h"

namespace attention::server {
namespace {

constexpr absl::string_view kMagic("\x93NUMPY", 6);
constexpr size_t kAlignment = 64;

struct Parts {
  absl::string_view header;
  absl::Span<const std::byte> data;
};

absl::StatusOr<Parts> Split(absl::Span<const std::byte> file) {
  const absl::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (text.substr(0, kMagic.size()) != kMagic || text.size() < kMagic.size() + 2) {
    return absl::InvalidArgumentError("npy: wanted \\x93NUMPY and a version as the first bytes");
  }
  const int version = static_cast<unsigned char>(text[kMagic.size()]);
  if (version < 1 || version > 3) {
    return absl::InvalidArgumentError(absl::StrCat("npy: version ", version, " is unknown, wanted 1, 2 or 3"));
  }
  const size_t length_at = kMagic.size() + 2;
  const size_t length_bytes = version == 1 ? 2 : 4;
  const absl::string_view rest = text.substr(length_at);
  if (rest.size() < length_bytes) return absl::InvalidArgumentError("npy: ends within the header length");
  size_t length = 0;
  for (size_t i = 0; i < length_bytes; ++i)
    length |= static_cast<size_t>(static_cast<unsigned char>(rest[i])) << (8 * i);
  if (length > rest.size() - length_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("npy: header length ", length, ", but only ", rest.size() - length_bytes, " bytes follow"));
  }
  return Parts{rest.substr(length_bytes, length), file.subspan(length_at + length_bytes + length)};
}

// REQUIRES: `data` holds the elements of `shape`, which has at least one axis.
std::vector<std::byte> ToRowMajor(absl::Span<const std::byte> data, absl::Span<const int64_t> shape, int64_t size) {
  std::vector<std::byte> result;
  result.reserve(data.size());
  // Bytes from one element to the next along each axis of the column-major data.
  Shape strides(1, size);
  for (size_t axis = 1; axis < shape.size(); ++axis) strides.push_back(strides.back() * shape[axis - 1]);
  Shape index(shape.size(), 0);
  const std::byte* row = data.data();
  while (result.size() < data.size()) {
    for (int64_t i = 0; i < shape.back(); ++i) {
      const std::byte* const element = row + i * strides.back();
      result.insert(result.end(), element, element + size);
    }
    for (size_t axis = shape.size() - 1; axis-- > 0;) {
      row += strides[axis];
      if (++index[axis] < shape[axis]) break;
      row -= strides[axis] * shape[axis];
      index[axis] = 0;
    }
  }
  return result;
}

}  // namespace

absl::StatusOr<TensorMap> ParseNpy(absl::Span<const std::byte> file) {
  const absl::StatusOr<Parts> parts = Split(file);
  if (!parts.ok()) return parts.status();
  absl::StatusOr<NpyHeader> header = ParseNpyHeader(parts->header);
  if (!header.ok()) return header.status();
  const std::optional<int64_t> wanted = ByteCount(header->shape, header->dtype);
  if (!wanted || static_cast<uint64_t>(*wanted) != parts->data.size()) {
    return absl::InvalidArgumentError(absl::StrCat("npy: ", parts->data.size(), " bytes of data, wanted ",
                                                   wanted ? absl::StrCat(*wanted) : "more than there can be", " for ",
                                                   DTypeName(header->dtype), " ", ShapeString(header->shape)));
  }
  TensorMap map;
  absl::Span<const std::byte> data = parts->data;
  if (header->column_major && !data.empty() && header->shape.size() > 1) {
    map.storage.push_back(ToRowMajor(data, header->shape, DTypeSize(header->dtype)));
    data = map.storage.back();
  }
  map.tensors.push_back({"", header->dtype, std::move(header->shape), data});
  return map;
}

absl::StatusOr<std::vector<std::byte>> SerializeNpy(const NamedTensor& tensor) {
  const std::optional<int64_t> wanted = ByteCount(tensor.shape, tensor.dtype);
  if (!wanted || static_cast<uint64_t>(*wanted) != tensor.data.size() || tensor.shape.size() > kMaxAxes) {
    return absl::InvalidArgumentError(absl::StrCat("npy: ", tensor.data.size(), " bytes do not fit ",
                                                   DTypeName(tensor.dtype), " ", ShapeString(tensor.shape)));
  }
  absl::StatusOr<std::string> header = MakeNpyHeader(tensor.dtype, tensor.shape);
  if (!header.ok()) return header.status();
  const size_t before = kMagic.size() + 4;
  const size_t data_at = (before + header->size() + 1 + kAlignment - 1) / kAlignment * kAlignment;
  header->resize(data_at - before - 1, ' ');
  *header += '\n';

  std::string start = absl::StrCat(kMagic, absl::string_view("\x01\x00", 2));
  start += static_cast<char>(header->size() & 0xFF);
  start += static_cast<char>(header->size() >> 8);
  start += *header;
  const absl::Span<const std::byte> start_bytes(reinterpret_cast<const std::byte*>(start.data()), start.size());
  std::vector<std::byte> file(start_bytes.begin(), start_bytes.end());
  file.insert(file.end(), tensor.data.begin(), tensor.data.end());
  return file;
}

}  // namespace attention::server
