#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace attention::server {

// Uninitialised float memory that only grows, aligned for the widest vector registers. A buffer that grows loses its
// contents. Not thread-safe.
//
// Large buffers use huge pages, because the first access to a small page costs as much in a virtual machine as copying
// it about a hundred times. Each one is a mapping of its own, so that its memory returns to the system when the buffer
// is destroyed; malloc would keep it.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(int64_t count) { Reserve(count); }

  // At least `count` floats. Throws std::bad_alloc.
  float* Reserve(int64_t count);

  float* data() const { return data_.get(); }
  int64_t bytes() const { return capacity_ * static_cast<int64_t>(sizeof(float)); }

 private:
  class Free {
   public:
    Free() : Free(0) {}
    explicit Free(size_t mapped_bytes) : mapped_bytes_(mapped_bytes) {}
    void operator()(float* data) const;

   private:
    size_t mapped_bytes_;  // 0: allocated by malloc
  };

  std::unique_ptr<float, Free> data_;
  int64_t capacity_ = 0;
};

}  // namespace attention::server
