#include "server/engine/call_cost.h"

#include <gtest/gtest.h>

#include <limits>

#include "server/engine/attention/attention.h"

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

// The cost beyond the fixed part, in multiply-adds.
double Cost(const AttentionCall& call, const LayerShape* layer = nullptr, bool returns_scores = false) {
  AttentionCall nothing = call;
  nothing.shape.q_length = nothing.shape.kv_length = 0;
  nothing.mask.limits.clear();
  return CallCost(call, layer, returns_scores) - CallCost(nothing, layer, false);
}

TEST(CallCostTest, CountsTheProjectionsOfEveryToken) {
  const LayerShape layer{100, 110, 120, {4, 2, 32, 64}, 50};
  AttentionCall call = Call(3, 1000, 0);
  call.shape.heads = layer.heads;
  EXPECT_DOUBLE_EQ(Cost(call, &layer), 3.0 * 1000 * (100 * 4 * 32 + 4 * 64 * 50));
  const double queries = Cost(call, &layer);
  call.shape.kv_length = 10;
  const double scores = Cost(call);
  EXPECT_DOUBLE_EQ(Cost(call, &layer) - scores - queries, 3.0 * 10 * (110 * 2 * 32 + 120 * 2 * 64));
}

TEST(CallCostTest, GrowsWithTheScoresThatAreVisible) {
  AttentionCall call = Call(2, 1000, 1000);
  const double all = Cost(call);
  call.mask.limits = {{.q_length = 1000, .kv_length = 1000, .last_offset = 0}};
  EXPECT_NEAR(Cost(call) / all, 0.5, 0.05) << "causal";
  call.mask.limits = {{.q_length = 1000, .kv_length = 250}, {.q_length = 500, .kv_length = 1000}};
  EXPECT_NEAR(Cost(call) / all, (0.25 + 0.5) / 2, 0.01) << "lengths of each sequence";
}

TEST(CallCostTest, CountsTheSlowerPassesOfReturnedScores) {
  const AttentionCall call = Call(2, 100, 100);
  EXPECT_GT(Cost(call, nullptr, true), 2 * Cost(call));
}

TEST(CallCostTest, IsFiniteForTheLargestSizes) {
  constexpr int64_t kLarge = int64_t{1} << 40;
  EXPECT_GT(CallCost(Call(kLarge, kLarge, kLarge), nullptr, false), 1e36);
}

}  // namespace
}  // namespace attention::server
