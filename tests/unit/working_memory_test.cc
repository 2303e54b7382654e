#include "server/engine/working_memory.h"

#include <gtest/gtest.h>

#include <limits>

#include "server/engine/attention.h"

namespace attention::server {
namespace {

constexpr LayerShape kShape = {
    .in_features = 3, .in_k_features = 3, .in_v_features = 3, .num_heads = 2, .head_dim = 4, .out_features = 3};

AttentionCall Call(int64_t batch, int64_t q_length, int64_t kv_length) {
  AttentionCall call;
  call.batch = batch;
  call.q_length = q_length;
  call.kv_length = kv_length;
  return call;
}

TEST(WorkingMemoryTest, CountsProjectionsPiecesAndTiles) {
  const int64_t projections = 2 * 3 * (5 + 16) * 8 * 4;
  const int64_t units = 3 * 2 * static_cast<int64_t>(sizeof(AttentionUnit));
  const int64_t tile = 16 * (64 + 3 * 4) * 4;
  EXPECT_EQ(WorkingBytes(kShape, Call(3, 5, 16), 1), projections + units + tile);
  EXPECT_EQ(WorkingBytes(kShape, Call(3, 5, 16), 4), projections + units + 4 * tile);
}

TEST(WorkingMemoryTest, NeedsNoTilesWithoutKeys) {
  EXPECT_EQ(WorkingBytes(kShape, Call(1, 5, 0), 8), 2 * 5 * 8 * 4 + 2 * static_cast<int64_t>(sizeof(AttentionUnit)));
}

TEST(WorkingMemoryTest, NeedsNothingForAnEmptyBatchHoweverLarge) {
  EXPECT_EQ(WorkingBytes(kShape, Call(int64_t{1} << 40, 0, 0), 8), 0);
}

TEST(WorkingMemoryTest, EndsAtTheLargestNumber) {
  EXPECT_EQ(WorkingBytes(kShape, Call(int64_t{1} << 31, int64_t{1} << 31, 1), 1), std::numeric_limits<int64_t>::max());
}

}  // namespace
}  // namespace attention::server
