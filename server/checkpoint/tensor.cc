#include "server/checkpoint/tensor.h"

// Converts half precision by arithmetic: the lookup table of Imath would require its library at run time.
#define IMATH_HALF_NO_LOOKUP_TABLE
#include <Imath/half.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/checkpoint/vectorized.h"

namespace attention::server {
namespace {

struct DTypeEntry {
  int64_t size;
  absl::string_view name;
};

const DTypeEntry& Entry(DType dtype) {
  static constexpr DTypeEntry kEntries[] = {
      {0, "unspecified"}, {4, "float32"}, {2, "bfloat16"}, {2, "float16"}, {8, "float64"}, {1, "bool"},  {1, "int8"},
      {1, "uint8"},       {2, "int16"},   {2, "uint16"},   {4, "int32"},   {4, "uint32"},  {8, "int64"}, {8, "uint64"},
  };
  return kEntries[static_cast<int>(dtype)];
}

float BFloat16ToFloat32(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

ATTENTION_VECTORIZED void RoundToBFloat16(const float* numbers, int64_t count, uint16_t* rounded) {
  for (int64_t i = 0; i < count; ++i) rounded[i] = RoundedToBFloat16(numbers[i]);
}

template <typename T>
bool IsAligned(const std::byte* data) {
  return reinterpret_cast<uintptr_t>(data) % alignof(T) == 0;
}

void Float32ToBFloat16(const std::byte* src, int64_t count, std::byte* dst) {
  if (IsAligned<float>(src) && IsAligned<uint16_t>(dst)) {
    return RoundToBFloat16(reinterpret_cast<const float*>(src), count, reinterpret_cast<uint16_t*>(dst));
  }
  // Copies blocks into aligned memory.
  constexpr int64_t kBlock = 256;
  float numbers[kBlock];
  uint16_t rounded[kBlock];
  for (int64_t done = 0; done < count; done += kBlock) {
    const int64_t size = std::min(kBlock, count - done);
    std::memcpy(numbers, src + done * sizeof(float), size * sizeof(float));
    RoundToBFloat16(numbers, size, rounded);
    std::memcpy(dst + done * sizeof(uint16_t), rounded, size * sizeof(uint16_t));
  }
}

// Uses memcpy for each element, because neither side has to be aligned.
template <typename From, typename To, typename Convert>
void ConvertElements(const std::byte* src, int64_t count, std::byte* dst, Convert convert) {
  for (int64_t i = 0; i < count; ++i) {
    From from;
    std::memcpy(&from, src + i * sizeof(From), sizeof(From));
    const To to = convert(from);
    std::memcpy(dst + i * sizeof(To), &to, sizeof(To));
  }
}

}  // namespace

int64_t DTypeSize(DType dtype) { return Entry(dtype).size; }

absl::string_view DTypeName(DType dtype) { return Entry(dtype).name; }

bool IsFloat(DType dtype) { return dtype >= DType::kFloat32 && dtype <= DType::kFloat64; }

std::string ShapeString(absl::Span<const int64_t> shape) { return absl::StrCat("[", absl::StrJoin(shape, ", "), "]"); }

std::optional<int64_t> ElementCount(absl::Span<const int64_t> shape) {
  int64_t count = 1;
  for (const int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(count, size, &count)) return std::nullopt;
  }
  return count;
}

std::optional<int64_t> ByteCount(absl::Span<const int64_t> shape, DType dtype) {
  const std::optional<int64_t> count = ElementCount(shape);
  int64_t bytes;
  if (!count || __builtin_mul_overflow(*count, DTypeSize(dtype), &bytes)) return std::nullopt;
  return bytes;
}

void ToFloat32(DType dtype, const std::byte* src, int64_t count, float* dst) {
  auto* bytes = reinterpret_cast<std::byte*>(dst);
  switch (dtype) {
    case DType::kBFloat16:
      return ConvertElements<uint16_t, float>(src, count, bytes, BFloat16ToFloat32);
    case DType::kFloat16:
      return ConvertElements<uint16_t, float>(src, count, bytes, imath_half_to_float);
    case DType::kFloat64:
      return ConvertElements<double, float>(src, count, bytes, [](double value) { return static_cast<float>(value); });
    default:
      if (count > 0) std::memcpy(dst, src, count * sizeof(float));
  }
}

void FromFloat32(const float* src, int64_t count, DType dtype, std::byte* dst) {
  const auto* bytes = reinterpret_cast<const std::byte*>(src);
  switch (dtype) {
    case DType::kBFloat16:
      return Float32ToBFloat16(bytes, count, dst);
    case DType::kFloat16:
      return ConvertElements<float, uint16_t>(bytes, count, dst, imath_float_to_half);
    case DType::kFloat64:
      return ConvertElements<float, double>(bytes, count, dst, [](float value) { return static_cast<double>(value); });
    default:
      if (count > 0) std::memcpy(dst, src, count * sizeof(float));
  }
}

}  // namespace attention::server
