#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <utility>

namespace attention::server {

// Bytes reserved from a ByteBudget, released when this is destroyed. A default-constructed reservation holds none.
class ByteReservation {
 public:
  ByteReservation() = default;
  ByteReservation(std::atomic<int64_t>* used, int64_t bytes) : used_(used), bytes_(bytes) {}
  ByteReservation(ByteReservation&& other) noexcept
      : used_(std::exchange(other.used_, nullptr)), bytes_(other.bytes_) {}
  ByteReservation& operator=(ByteReservation&& other) noexcept {
    std::swap(used_, other.used_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~ByteReservation() {
    if (used_ != nullptr) used_->fetch_sub(bytes_, std::memory_order_relaxed);
  }

 private:
  std::atomic<int64_t>* used_ = nullptr;
  int64_t bytes_ = 0;
};

// Limits the bytes that are reserved at the same time. Thread-safe. Must outlive its reservations.
class ByteBudget {
 public:
  explicit ByteBudget(int64_t limit) : limit_(limit) {}
  ByteBudget(const ByteBudget&) = delete;
  ByteBudget& operator=(const ByteBudget&) = delete;

  // Returns nothing if the total would exceed the limit. REQUIRES: bytes >= 0.
  std::optional<ByteReservation> TryReserve(int64_t bytes) {
    int64_t used = used_.load(std::memory_order_relaxed);
    do {
      if (bytes > limit_ - used) return std::nullopt;
    } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
    return ByteReservation(&used_, bytes);
  }

  int64_t limit() const { return limit_; }
  int64_t used() const { return used_.load(std::memory_order_relaxed); }

 private:
  const int64_t limit_;
  std::atomic<int64_t> used_ = 0;
};

}  // namespace attention::server
