#include "server/engine/kernels/buffer.h"

#include <sys/mman.h>

#include <cstdlib>
#include <new>

namespace attention::server {
namespace {

constexpr size_t kCacheLine = 64;
constexpr size_t kHugePage = size_t{2} << 20;

size_t RoundUp(size_t bytes, size_t alignment) { return (bytes + alignment - 1) / alignment * alignment; }

// A mapping of whole huge pages. REQUIRES: bytes is a multiple of kHugePage.
float* MapHugePages(size_t bytes) {
  // mmap aligns to small pages only, so this maps one huge page more and unmaps what is not aligned.
  const size_t mapped = bytes + kHugePage;
  void* const start = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (start == MAP_FAILED) throw std::bad_alloc();
  char* const first = static_cast<char*>(start);
  const size_t before = RoundUp(reinterpret_cast<uintptr_t>(first), kHugePage) - reinterpret_cast<uintptr_t>(first);
  char* const aligned = first + before;
  if (before > 0) munmap(first, before);
  munmap(aligned + bytes, mapped - before - bytes);
  // A failure only costs speed.
  (void)madvise(aligned, bytes, MADV_HUGEPAGE);
  return reinterpret_cast<float*>(aligned);
}

}  // namespace

void Buffer::Free::operator()(float* data) const {
  if (mapped_bytes_ == 0) return std::free(data);
  munmap(data, mapped_bytes_);
}

float* Buffer::Reserve(int64_t count) {
  if (count <= capacity_) return data_.get();
  const size_t needed = static_cast<size_t>(count) * sizeof(float);
  const bool is_large = needed >= 2 * kHugePage;
  const size_t bytes = RoundUp(needed, is_large ? kHugePage : kCacheLine);
  capacity_ = 0;
  data_.reset();
  float* const data = is_large ? MapHugePages(bytes) : static_cast<float*>(std::aligned_alloc(kCacheLine, bytes));
  if (data == nullptr) throw std::bad_alloc();
  data_ = std::unique_ptr<float, Free>(data, Free(is_large ? bytes : 0));
  capacity_ = static_cast<int64_t>(bytes / sizeof(float));
  return data_.get();
}

}  // namespace attention::server
