// What requests need goes back when they end. tests/bench/soak.sh asks the same of a whole process, for longer.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "tests/testing/matchers.h"
#include "tests/testing/requests.h"
#include "tests/testing/running_server.h"
#include "tests/testing/together.h"
#include "tests/testing/weights.h"

#ifdef __SANITIZE_ADDRESS__
// Of the sanitizer's run-time library; gcc does not come with the header that declares it.
extern "C" size_t __sanitizer_get_current_allocated_bytes();
#endif

namespace attention::test {
namespace {

constexpr int kBatches = 1000;
constexpr int kRequestsOfABatch = 8;

// In use, not merely kept for later; so fragments do not count.
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

  // One request of each asks for all that a reply can hold.
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

TEST_F(MemorySoakTest, AnotherThousandBatchesLeaveNothingBehind) {
  // A kilobyte for each request, whose tensors take some ten. Blocks that a thread keeps in its own cache count as in
  // use; they come to a megabyte or two, however many requests there are.
  constexpr int64_t kAllowed = int64_t{kBatches} * kRequestsOfABatch * 1024;
  ASSERT_NO_FATAL_FAILURE(ServeBatches());
  const int64_t before = HeapBytes();
  ASSERT_NO_FATAL_FAILURE(ServeBatches());
  EXPECT_LT(HeapBytes() - before, kAllowed) << "after " << before;
}

}  // namespace
}  // namespace attention::test
