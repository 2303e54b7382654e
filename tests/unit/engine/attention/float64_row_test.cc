#include "server/engine/attention/float64_row.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <vector>

namespace attention::server {
namespace {

using ::testing::ElementsAre;

constexpr float kLargest = std::numeric_limits<float>::max();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// One query of one head, with head_dim and value_head_dim 1 and the scale 1.
class Float64RowTest : public ::testing::Test {
 protected:
  Float64RowTest() {
    call_.non_finite = &non_finite_;
    call_.options.scale = 1;
  }

  struct Weighed {
    bool is_replaced = false;
    std::vector<float> weights;
    double log_sum_exp = 0;
  };

  Weighed Weigh(float query, const std::vector<float>& keys) {
    Read(query, keys, keys);
    const Tile tile = MakeTile();
    Weighed weighed{.weights = std::vector<float>(keys.size(), -1.0f)};
    weighed.is_replaced =
        Float64Row(tile).Weigh(0, std::abs(query), tile.keys, weighed.weights.data(), &weighed.log_sum_exp);
    return weighed;
  }

  // The float context before is 7.
  float Average(const std::vector<float>& values, const std::vector<float>& weights) {
    Read(0, values, values);
    float context = 7;
    const Tile tile = MakeTile();
    Float64Row(tile).Average(tile.keys, weights.data(), &context);
    return context;
  }

  void Read(float query, const std::vector<float>& keys, const std::vector<float>& values) {
    const auto count = static_cast<int64_t>(keys.size());
    call_.shape = {.batch = 1, .q_length = 1, .kv_length = count, .heads = {1, 1, 1, 1}};
    numbers_ = {{query}, keys, values};
    worker_.head.Read(worker_.onednn, call_.options.compute_dtype, Rows(1), Rows(2), {0, count}, kMaxChunkKeys);
  }

  HeadRows Rows(int tensor) {
    tensors_[tensor] = {.data = reinterpret_cast<const std::byte*>(numbers_[tensor].data()), .token_stride = 1};
    return {&tensors_[tensor], 0, 0, 1};
  }

  Tile MakeTile() {
    mask_.emplace(call_, 0, 0);
    outputs_.emplace(call_, 0, 0);
    return {call_, Rows(0), *mask_, *outputs_, worker_, 0, 1, {0, call_.shape.kv_length}};
  }

  AttentionCall call_;
  NonFiniteTensors non_finite_;
  std::vector<std::vector<float>> numbers_;
  HeadInput tensors_[3];
  std::optional<HeadMask> mask_;
  std::optional<RowOutputs> outputs_;
  Worker worker_;
};

TEST_F(Float64RowTest, WeighsScoresAboveFloat32) {
  for (const DType operands : {DType::kFloat32, DType::kBFloat16}) {
    call_.options.compute_dtype = operands;
    const Weighed weighed = Weigh(0x1p100f, {0x1p101f, 0x1p100f, 0x1p101f});
    EXPECT_TRUE(weighed.is_replaced);
    EXPECT_THAT(weighed.weights, ElementsAre(0.5f, 0.0f, 0.5f));
    EXPECT_DOUBLE_EQ(weighed.log_sum_exp, 0x1p201);
  }
}

// The largest float32 number is infinite as bfloat16, so it is not rounded.
TEST_F(Float64RowTest, WeighsTheLargestNumbersInBFloat16) {
  call_.options.compute_dtype = DType::kBFloat16;
  EXPECT_THAT(Weigh(kLargest, {kLargest, -kLargest, kLargest}).weights, ElementsAre(0.5f, 0.0f, 0.5f));
}

TEST_F(Float64RowTest, LeavesRowsForWhichFloat32HasEnoughRange) {
  EXPECT_FALSE(Weigh(0x1p49f, {0x1p50f, 1.0f}).is_replaced);
  EXPECT_TRUE(Weigh(0x1p50f, {0x1p50f, 1.0f}).is_replaced);
  call_.mask.limits = {{.q_length = 1, .kv_length = 1}};
  EXPECT_FALSE(Weigh(1, {1, kLargest}).is_replaced) << "the large key is hidden";
  EXPECT_FALSE(Weigh(1, {1, kNaN}).is_replaced) << "the NaN is hidden";
  EXPECT_EQ(non_finite_.first(), std::nullopt);
}

TEST_F(Float64RowTest, LeavesAndReportsRowsThatSeeANumberThatIsNotFinite) {
  EXPECT_FALSE(Weigh(1, {1, kNaN}).is_replaced);
  EXPECT_EQ(non_finite_.first(), FormulaTensor::kKey);
  EXPECT_FALSE(Weigh(kNaN, {1, 1}).is_replaced);
  EXPECT_EQ(non_finite_.first(), FormulaTensor::kQuery);
}

TEST_F(Float64RowTest, AveragesTheLargestValues) {
  EXPECT_EQ(Average({kLargest, kLargest, kLargest}, {0.34f, 0.33f, 0.34f}), kLargest);
  EXPECT_EQ(Average({kLargest, -kLargest, kNaN}, {0.75f, 0.25f, 0.0f}), kLargest / 2);
}

TEST_F(Float64RowTest, LeavesAndReportsAveragesOfValuesThatAreNotFinite) {
  EXPECT_EQ(Average({1, kNaN}, {0.5f, 0.5f}), 7);
  EXPECT_EQ(non_finite_.first(), FormulaTensor::kValue);
}

}  // namespace
}  // namespace attention::server
