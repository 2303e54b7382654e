#include "server/engine/buffer.h"

#include <sys/mman.h>

#include <new>

namespace attention::server {
namespace {

constexpr size_t kCacheLine = 64;
constexpr size_t kHugePage = size_t{2} << 20;

}  // namespace

float* Buffer::Reserve(int64_t count) {
  if (count <= capacity_) return data_.get();
  const size_t wanted = static_cast<size_t>(count) * sizeof(float);
  const size_t alignment = wanted >= 2 * kHugePage ? kHugePage : kCacheLine;
  const size_t bytes = (wanted + alignment - 1) / alignment * alignment;
  capacity_ = 0;
  data_.reset();
  data_.reset(static_cast<float*>(std::aligned_alloc(alignment, bytes)));
  if (data_ == nullptr) throw std::bad_alloc();
  // A refusal only costs speed.
  if (alignment == kHugePage) (void)madvise(data_.get(), bytes, MADV_HUGEPAGE);
  capacity_ = static_cast<int64_t>(bytes / sizeof(float));
  return data_.get();
}

}  // namespace attention::server
