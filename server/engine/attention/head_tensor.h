#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

#include "server/checkpoint/tensor.h"

namespace attention::server {

// Query, key, value or context of some sequences of a call: in a buffer of the engine, or in the request or reply
// itself. The numbers of one (sequence, head, token) are contiguous; strides count numbers. Does not own the bytes.
template <typename Byte>
struct HeadTensor {
  DType dtype = DType::kFloat32;
  Byte* data = nullptr;  // of first_sequence
  int64_t sequence_stride = 0;
  int64_t head_stride = 0;
  int64_t token_stride = 0;
  int64_t first_sequence = 0;  // sequences are numbered as in the call

  // If the sequences have different lengths: the first token of each one. sequence_stride is not used then.
  std::shared_ptr<const std::vector<int64_t>> first_tokens = nullptr;

  Byte* At(int64_t sequence, int64_t head, int64_t token) const {
    const int64_t index = sequence - first_sequence;
    const int64_t start = first_tokens == nullptr ? index * sequence_stride : (*first_tokens)[index] * token_stride;
    return data + (start + head * head_stride + token * token_stride) * DTypeSize(dtype);
  }

  // The same if the numbers are aligned float32, else null.
  auto* Float32At(int64_t sequence, int64_t head, int64_t token) const {
    using Float = std::conditional_t<std::is_const_v<Byte>, const float, float>;
    Byte* at = At(sequence, head, token);
    const bool is_float = dtype == DType::kFloat32 && reinterpret_cast<uintptr_t>(at) % alignof(float) == 0;
    return is_float ? reinterpret_cast<Float*>(at) : nullptr;
  }

  // Converts tokens first … first + count − 1 to float32: `size` numbers each, written `to_stride` apart.
  void Read(int64_t sequence, int64_t head, int64_t first, int64_t count, int64_t size, float* to,
            int64_t to_stride) const {
    // Tokens are far apart, and the hardware prefetcher does not predict the stride.
    constexpr int64_t kAhead = 8;
    const int64_t step = token_stride * DTypeSize(dtype);
    const int64_t bytes = size * DTypeSize(dtype);
    const Byte* from = At(sequence, head, first);
    for (int64_t token = 0; token < count; ++token, from += step, to += to_stride) {
      if (token + kAhead < count) Prefetch(from + kAhead * step, bytes);
      if (dtype == DType::kFloat32) {
        std::memcpy(to, from, bytes);
      } else {
        ToFloat32(dtype, from, size, to);
      }
    }
  }

 private:
  static void Prefetch(const Byte* from, int64_t bytes) {
    constexpr int64_t kLine = 64;
    for (int64_t byte = 0; byte < bytes; byte += kLine) __builtin_prefetch(from + byte);
  }
};

using HeadInput = HeadTensor<const std::byte>;
using HeadOutput = HeadTensor<std::byte>;

}  // namespace attention::server
