#include "server/checkpoint/formats/tensor_map.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <optional>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "server/checkpoint/field_error.h"

namespace attention::server {
namespace {

// Number of bytes after the first byte of a character, or -1 if no character starts with this byte.
int ContinuationBytes(unsigned char first) {
  if (first < 0x80) return 0;
  if (first < 0xC2) return -1;
  if (first < 0xE0) return 1;
  if (first < 0xF0) return 2;
  return first < 0xF5 ? 3 : -1;
}

bool IsCharacter(uint32_t code, int continuation_bytes) {
  constexpr uint32_t kSmallest[] = {0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = code >= 0xD800 && code < 0xE000;
  return code >= kSmallest[continuation_bytes] && code <= 0x10FFFF && !is_surrogate;
}

class RangeReader : public TensorReader {
 public:
  explicit RangeReader(const ByteSource& file) : file_(file) {}

  absl::StatusOr<std::vector<std::byte>> Read(const NamedTensor& tensor) const override {
    return ReadRange(file_, tensor.position, *ByteCount(tensor.shape, tensor.dtype));
  }

 private:
  const ByteSource& file_;
};

template <typename T>
T Load(const std::byte* data) {
  T value;
  std::memcpy(&value, data, sizeof(value));
  return value;
}

template <typename T>
std::string ShortestText(T number) {
  std::array<char, 32> text;
  const std::to_chars_result end = std::to_chars(text.data(), text.data() + text.size(), number);
  return {text.data(), end.ptr};
}

}  // namespace

const NamedTensor* TensorMap::Find(absl::string_view name) const {
  const auto found =
      std::lower_bound(tensors.begin(), tensors.end(), name,
                       [](const NamedTensor& tensor, absl::string_view name) { return tensor.name < name; });
  return found != tensors.end() && found->name == name ? &*found : nullptr;
}

absl::Status SortByName(std::vector<NamedTensor>& tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  const auto duplicate =
      std::adjacent_find(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.name == b.name; });
  if (duplicate == tensors.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(EscapeForMessage(duplicate->name), ": duplicate tensor name"));
}

absl::Status CheckByteCount(absl::string_view field, DType dtype, absl::Span<const int64_t> shape, uint64_t bytes) {
  const std::optional<int64_t> expected = ByteCount(shape, dtype);
  if (expected && static_cast<uint64_t>(*expected) == bytes) return absl::OkStatus();
  const std::string count = expected ? absl::StrCat(*expected) : "2^63 or more";
  return FieldError(
      field,
      absl::StrCat(count, count == "1" ? " byte for " : " bytes for ", DTypeName(dtype), " ", ShapeString(shape)),
      bytes);
}

std::unique_ptr<const TensorReader> MakeRangeReader(const ByteSource& file) {
  return std::make_unique<RangeReader>(file);
}

absl::Status CheckTensorName(absl::string_view field, absl::string_view name) {
  if (!HasControlCharacter(name) && IsUtf8(name)) return absl::OkStatus();
  return FieldError(field, "tensor names in UTF-8 without control characters",
                    absl::StrCat("\"", EscapeForMessage(name), "\""));
}

std::string PrintableName(absl::string_view name) {
  return CheckTensorName("", name).ok() ? std::string(name) : absl::CEscape(name);
}

bool HasControlCharacter(absl::string_view text) {
  return std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7F; });
}

bool IsUtf8(absl::string_view text) {
  while (!text.empty()) {
    const auto first = static_cast<unsigned char>(text[0]);
    const int count = ContinuationBytes(first);
    if (count < 0 || static_cast<size_t>(count) >= text.size()) return false;
    uint32_t code = count == 0 ? first : first & (0x3F >> count);
    for (int i = 1; i <= count; ++i) {
      const auto next = static_cast<unsigned char>(text[i]);
      if ((next & 0xC0) != 0x80) return false;
      code = code << 6 | (next & 0x3F);
    }
    if (!IsCharacter(code, count)) return false;
    text.remove_prefix(count + 1);
  }
  return true;
}

std::string NumberText(const NamedTensor& scalar) {
  const std::byte* const data = scalar.data.data();
  switch (scalar.dtype) {
    case DType::kFloat32:
    case DType::kBFloat16:
    case DType::kFloat16: {
      float number;
      ToFloat32(scalar.dtype, data, 1, &number);
      return ShortestText(number);
    }
    case DType::kFloat64:
      return ShortestText(Load<double>(data));
    case DType::kBool:
      return Load<uint8_t>(data) != 0 ? "true" : "false";
    case DType::kInt8:
      return absl::StrCat(int{Load<int8_t>(data)});
    case DType::kUInt8:
      return absl::StrCat(int{Load<uint8_t>(data)});
    case DType::kInt16:
      return absl::StrCat(Load<int16_t>(data));
    case DType::kUInt16:
      return absl::StrCat(Load<uint16_t>(data));
    case DType::kInt32:
      return absl::StrCat(Load<int32_t>(data));
    case DType::kUInt32:
      return absl::StrCat(Load<uint32_t>(data));
    case DType::kInt64:
      return absl::StrCat(Load<int64_t>(data));
    case DType::kUInt64:
      return absl::StrCat(Load<uint64_t>(data));
  }
  return "";
}

std::string NumberText(double number) { return ShortestText(number); }

}  // namespace attention::server
