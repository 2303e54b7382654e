#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "server/engine/attention/tile.h"
#include "tests/unit/engine/owned_call.h"

namespace attention::server {
namespace {

using Row = TileResult::Row;

constexpr int64_t kSize = 6;

// One head of one sequence. The keys are also the values, unless there are others.
class FusedExpTileTest : public ::testing::Test {
 protected:
  void Use(int64_t q_length, int64_t kv_length, float spread = 1) {
    std::mt19937 random(3);
    queries_ = RandomNumbers(q_length * kSize, random);
    keys_ = RandomNumbers(kv_length * kSize, random);
    for (float& number : queries_) number *= spread;
    call_.shape.batch = 1;
    call_.shape.q_length = q_length;
    call_.shape.kv_length = kv_length;
    call_.shape.heads = {1, 1, kSize, kSize};
    call_.options.scale = 0.5f;
  }

  HeadRows Rows(const std::vector<float>& numbers, HeadInput& tensor) {
    tensor = {.data = reinterpret_cast<const std::byte*>(numbers.data()), .token_stride = kSize};
    return {&tensor, 0, 0, kSize};
  }

  // All queries computed in both ways. The contexts are multiplied by their factors.
  struct Both {
    TileResult fused, two_pass;
    std::vector<float> fused_context, two_pass_context;
  };

  Both Attend() {
    const HeadRows keys = Rows(keys_, key_tensor_);
    const HeadRows values = values_.empty() ? keys : Rows(values_, value_tensor_);
    worker_.head.Read(worker_.onednn, call_.options.compute_dtype, keys, values, {0, call_.shape.kv_length},
                      ChunkKeys(call_.LimitsOf(0)));
    const HeadMask mask(call_, 0, 0);
    const RowOutputs outputs(call_, 0, 0);
    std::vector<float> log_sum_exp(call_.shape.q_length);
    const Tile tile{call_,
                    Rows(queries_, query_tensor_),
                    mask,
                    outputs,
                    worker_,
                    0,
                    call_.shape.q_length,
                    mask.TileRange(0, call_.shape.q_length)};
    Both both;
    call_.extra_outputs.log_sum_exp = log_sum_exp.data();
    both.fused = AttendFusedExp(tile);
    both.fused_context = Contexts(both.fused);
    both.two_pass = AttendTwoPass(tile);
    call_.extra_outputs.log_sum_exp = nullptr;
    both.two_pass_context = Contexts(both.two_pass);
    return both;
  }

  std::vector<float> Contexts(const TileResult& result) const {
    std::vector<float> contexts(result.context, result.context + call_.shape.q_length * kSize);
    for (size_t i = 0; i < contexts.size(); ++i) contexts[i] *= static_cast<float>(result.factors[i / kSize]);
    return contexts;
  }

  void ExpectEqualRows(const Both& both, double tolerance) {
    for (int64_t row = 0; row < call_.shape.q_length; ++row) {
      ASSERT_EQ(both.fused.rows[row], both.two_pass.rows[row]) << "row " << row;
      if (both.fused.rows[row] != Row::kDone) continue;
      EXPECT_NEAR(both.fused.log_sum_exp[row], both.two_pass.log_sum_exp[row], tolerance) << "row " << row;
      for (int64_t i = row * kSize; i < (row + 1) * kSize; ++i) {
        EXPECT_NEAR(both.fused_context[i], both.two_pass_context[i], tolerance) << "row " << row;
      }
    }
  }

  AttentionCall call_;
  std::vector<float> queries_, keys_, values_;
  HeadInput query_tensor_, key_tensor_, value_tensor_;
  Worker worker_;
};

TEST_F(FusedExpTileTest, AgreesWithTwoPasses) {
  for (const int64_t kv_length : {1, 17, 512, 513, 1200}) {
    Use(30, kv_length);
    SCOPED_TRACE(kv_length);
    ExpectEqualRows(Attend(), 2e-6);
  }
}

TEST_F(FusedExpTileTest, AgreesWithTwoPassesUnderADiagonal) {
  Use(60, 700);
  call_.mask.limits = {{.q_length = 60, .kv_length = 690, .first_offset = 580, .last_offset = 640}};
  ExpectEqualRows(Attend(), 2e-6);
  call_.mask.limits = {{.q_length = 60, .kv_length = 690, .last_offset = -20}};  // the first 20 see no key
  const Both both = Attend();
  EXPECT_EQ(both.fused.rows[19], Row::kSeesNoKey);
  EXPECT_EQ(both.fused.rows[20], Row::kDone);
  ExpectEqualRows(both, 2e-6);
}

TEST_F(FusedExpTileTest, AgreesWithTwoPassesInBFloat16) {
  Use(30, 700);
  call_.options.compute_dtype = DType::kBFloat16;
  ExpectEqualRows(Attend(), 2e-2);
}

TEST_F(FusedExpTileTest, MarksARowUnreliableIfItsScoresAreFarBelowTheBound) {
  Use(4, 20);
  // The longest key has the opposite direction of query 1, whose scores with the other keys are small.
  for (int64_t i = 0; i < kSize; ++i) {
    keys_[i] = i == 0 ? 100.0f : 0.0f;
    queries_[kSize + i] = i == 0 ? -1.0f : 0.0f;
    queries_[2 * kSize + i] = i == 0 ? 1.0f : 0.0f;
  }
  const Both both = Attend();
  EXPECT_EQ(both.fused.rows[1], Row::kUnreliable);
  EXPECT_EQ(both.fused.rows[2], Row::kDone);
  EXPECT_EQ(both.two_pass.rows[1], Row::kDone);
}

TEST_F(FusedExpTileTest, MarksRowsUnreliableThatSeeANonFiniteKey) {
  for (const float number : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Use(4, 20);
    call_.mask.limits = {{.q_length = 4, .kv_length = 20, .last_offset = 0}};
    const Both clean = Attend();
    keys_[2 * kSize] = number;
    const Both with_number = Attend();
    EXPECT_EQ(with_number.fused.rows[1], Row::kDone);
    EXPECT_EQ(with_number.fused.rows[2], Row::kUnreliable);
    for (int64_t i = 0; i < 2 * kSize; ++i) EXPECT_EQ(with_number.fused_context[i], clean.fused_context[i]);
  }
}

// |query| · |key| = 88804 is rounded down to the bfloat16 number 88576, so the score exceeds the bound by 228.
TEST_F(FusedExpTileTest, MarksARowUnreliableIfItsScoresAreFarAboveTheRoundedBound) {
  Use(1, 1);
  std::fill(queries_.begin(), queries_.end(), 0.0f);
  std::fill(keys_.begin(), keys_.end(), 0.0f);
  queries_[0] = keys_[0] = 298;
  call_.options.scale = 1;
  call_.options.compute_dtype = DType::kBFloat16;
  const Both both = Attend();
  EXPECT_EQ(both.fused.rows[0], Row::kUnreliable);
  EXPECT_EQ(both.two_pass_context[0], 298.0f);
  EXPECT_NEAR(both.two_pass.log_sum_exp[0], 88804, 0.01);
}

// The weights of the fused product have a sum of 1200, which multiplies the values.
TEST_F(FusedExpTileTest, MarksARowUnreliableIfItsContextOverflows) {
  Use(1, 1200);
  std::fill(queries_.begin(), queries_.end(), 0.0f);
  values_.assign(keys_.size(), 1e36f);
  const Both both = Attend();
  EXPECT_EQ(both.fused.rows[0], Row::kUnreliable);
  for (int64_t i = 0; i < kSize; ++i) EXPECT_FLOAT_EQ(both.two_pass_context[i], 1e36f);
}

TEST(CanUseFusedExpTest, ExcludesCallsThatChangeOrReturnScores) {
  const AttentionCall plain;
  EXPECT_TRUE(CanUseFusedExp(plain));
  AttentionCall call = plain;
  float number = 0;
  call.extra_outputs.log_sum_exp = call.extra_outputs.context = &number;
  call.mask.limits = {{}};
  EXPECT_TRUE(CanUseFusedExp(call));
  call = plain;
  call.options.softcap = 1;
  EXPECT_FALSE(CanUseFusedExp(call));
  call = plain;
  call.extra_outputs.mean_attn_weights = &number;
  EXPECT_FALSE(CanUseFusedExp(call));
  call = plain;
  call.bias.data = reinterpret_cast<const std::byte*>(&number);
  EXPECT_FALSE(CanUseFusedExp(call));
  call = plain;
  call.mask.segments.q = {1};
  EXPECT_FALSE(CanUseFusedExp(call));
}

}  // namespace
}  // namespace attention::server
