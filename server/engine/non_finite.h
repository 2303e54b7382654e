#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <optional>

namespace attention::server {

// A tensor of the formula in attention.v1.AttentionService, in the order of the formula. Without a layer the context is
// the output.
enum class FormulaTensor : uint8_t { kQuery, kKey, kValue, kScores, kMaskedScores, kLogSumExp, kContext, kOutput };

// The tensors of one call that contain a number that is not finite, as far as a reply depends on it: NaN and infinities
// of the inputs, and results that exceed the range of their type. Thread-safe: the rows of a call are computed on
// several threads.
class NonFiniteTensors {
 public:
  void Add(FormulaTensor tensor) { bits_.fetch_or(1U << static_cast<uint32_t>(tensor), std::memory_order_relaxed); }

  // In the order of the formula; nothing if there is none.
  std::optional<FormulaTensor> first() const {
    const uint32_t bits = bits_.load(std::memory_order_relaxed);
    if (bits == 0) return std::nullopt;
    return static_cast<FormulaTensor>(std::countr_zero(bits));
  }

 private:
  std::atomic<uint32_t> bits_ = 0;
};

}  // namespace attention::server
