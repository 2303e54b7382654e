#include "server/engine/kernels/buffer.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <utility>

namespace attention::server {
namespace {

bool IsMapped(void* page) {
  unsigned char resident = 0;
  return mincore(page, 1, &resident) == 0 || errno != ENOMEM;
}

TEST(BufferTest, IsAlignedForVectorsAndHugePages) {
  struct Case {
    int64_t count;
    uintptr_t alignment;
  };
  for (const Case& c : {Case{1, 64}, Case{(1 << 20) - 1, 64}, Case{1 << 20, 2 << 20}, Case{(1 << 20) + 1, 2 << 20}}) {
    const Buffer buffer(c.count);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % c.alignment, 0u) << c.count;
    EXPECT_GE(buffer.bytes(), c.count * 4);
    buffer.data()[0] = 1;
    buffer.data()[buffer.bytes() / 4 - 1] = 2;
    EXPECT_EQ(buffer.data()[buffer.bytes() / 4 - 1], 2);
  }
}

TEST(BufferTest, OnlyGrows) {
  Buffer buffer;
  EXPECT_EQ(buffer.bytes(), 0);
  float* const small = buffer.Reserve(100);
  EXPECT_EQ(buffer.Reserve(50), small);
  float* const large = buffer.Reserve(3 << 20);
  EXPECT_EQ(buffer.Reserve(1 << 20), large);
  EXPECT_EQ(buffer.bytes(), 12 << 20);
}

TEST(BufferTest, ReturnsLargeMemoryToTheSystem) {
  char* first = nullptr;
  {
    Buffer buffer(2 << 20);
    first = reinterpret_cast<char*>(buffer.data());
    EXPECT_TRUE(IsMapped(first));
    Buffer moved = std::move(buffer);
    EXPECT_TRUE(IsMapped(first));
  }
  EXPECT_FALSE(IsMapped(first));
  EXPECT_FALSE(IsMapped(first + (8 << 20) - 4096));
}

}  // namespace
}  // namespace attention::server
