// Requests free all their memory when they end. tests/bench/soak.sh checks the same for a whole process over a longer
// time.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "tests/testing/files/weights.h"
#include "tests/testing/matchers.h"
#include "tests/testing/server/requests.h"
#include "tests/testing/server/running_server.h"
#include "tests/testing/server/together.h"

#ifdef __SANITIZE_ADDRESS__
// In the sanitizer's run-time library. gcc does not ship the header that declares it.
extern "C" size_t __sanitizer_get_current_allocated_bytes();
#endif

namespace attention::test {
namespace {

constexpr int kBatches = 1000;
constexpr int kRequestsOfABatch = 8;

// Allocated bytes, without memory that malloc only retains.
int64_t HeapBytes() {
#ifdef __SANITIZE_ADDRESS__
  return static_cast<int64_t>(__sanitizer_get_current_allocated_bytes());
#else
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
#endif
}

class MemorySoakTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto running = RunningServer::Start(
        {.checkpoints = {{"layer", ToParameters(RandomLayer(kLayer, 1))}}, .config = SharingConfig(kRequestsOfABatch)});
    ASSERT_THAT(running, IsOk());
    running_ = *std::move(running);
  }

  // One request of each batch requests every optional result.
  std::vector<v1::AttendRequest> DrawBatch() {
    std::vector<v1::AttendRequest> requests;
    for (int i = 0; i < kRequestsOfABatch; ++i) {
      requests.push_back(DrawRequest(kLayer, {.max_q_length = 64, .max_kv_length = 64}, random_));
      requests.back().set_weight_set("layer");
    }
    AskForEverything(kLayer.heads, requests.back());
    return requests;
  }

  void ServeBatches() {
    for (int i = 0; i < kBatches; ++i) {
      for (const auto& reply : AttendTogether(running_->client(), DrawBatch())) {
        ASSERT_THAT(reply, IsOk());
        ASSERT_EQ(reply->timing.batch_requests, kRequestsOfABatch);
      }
    }
  }

  static constexpr server::LayerShape kLayer = {64, 64, 64, {4, 4, 16, 16}, 64};

 private:
  std::unique_ptr<RunningServer> running_;
  std::mt19937 random_{1};
};

TEST_F(MemorySoakTest, AThousandMoreBatchesLeakNothing) {
  // One kilobyte for each request, whose tensors have about ten. Blocks in the caches of threads count as allocated;
  // they need a megabyte or two regardless of the number of requests.
  constexpr int64_t kAllowed = int64_t{kBatches} * kRequestsOfABatch * 1024;
  ASSERT_NO_FATAL_FAILURE(ServeBatches());
  const int64_t before = HeapBytes();
  ASSERT_NO_FATAL_FAILURE(ServeBatches());
  EXPECT_LT(HeapBytes() - before, kAllowed) << "after " << before;
}

}  // namespace
}  // namespace attention::test
