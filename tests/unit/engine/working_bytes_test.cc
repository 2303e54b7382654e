#include <gtest/gtest.h>

#include <limits>

#include "server/engine/attention/attention.h"
#include "server/engine/engine.h"

namespace attention::server {
namespace {

constexpr int64_t kUnit = sizeof(AttentionUnit);

AttentionCall Call(int64_t batch, int64_t q_length, int64_t kv_length) {
  AttentionCall call;
  call.shape.batch = batch;
  call.shape.q_length = q_length;
  call.shape.kv_length = kv_length;
  call.shape.heads = {.num_heads = 4, .num_kv_heads = 2, .head_dim = 3, .value_head_dim = 5};
  return call;
}

TEST(WorkingBytesTest, CountsProjectionsUnitsAndTiles) {
  const int64_t projections = 3 * (5 * (12 + 20) + 16 * (6 + 10)) * 4;
  const int64_t units = 3 * 4 * kUnit;
  const int64_t tile = 16 * (2 * 128 + 3 + 1 + 5 + 4) * 4;
  EXPECT_EQ(WorkingBytes(Call(3, 5, 16), true, 1), projections + units + tile);
  EXPECT_EQ(WorkingBytes(Call(3, 5, 16), true, 4), projections + units + 4 * tile);
  EXPECT_EQ(WorkingBytes(Call(3, 5, 16), false, 1), units + tile);
}

TEST(WorkingBytesTest, CountsNoTilesWithoutKeys) {
  EXPECT_EQ(WorkingBytes(Call(1, 5, 0), true, 8), 5 * (12 + 20) * 4 + 4 * kUnit);
}

TEST(WorkingBytesTest, IsZeroForAnEmptyCallOfAnyBatch) {
  EXPECT_EQ(WorkingBytes(Call(int64_t{1} << 40, 0, 0), true, 8), 0);
}

TEST(WorkingBytesTest, SaturatesAtTheLargestInt64) {
  EXPECT_EQ(WorkingBytes(Call(int64_t{1} << 36, int64_t{1} << 31, 1), true, 1), std::numeric_limits<int64_t>::max());
}

}  // namespace
}  // namespace attention::server
