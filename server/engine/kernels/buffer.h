#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace attention::server {

// Uninitialised float memory that only grows, aligned for the widest vector registers. A growing buffer loses its
// contents. Large buffers ask for huge pages: the first touch of a small page costs a virtual machine as much as
// copying it some hundred times. They are mapped each by itself, and go back to the system when they go: malloc would
// keep what an unloaded weight set leaves. Not thread-safe.
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
    size_t mapped_bytes_;  // 0: from malloc
  };

  std::unique_ptr<float, Free> data_;
  int64_t capacity_ = 0;
};

}  // namespace attention::server
