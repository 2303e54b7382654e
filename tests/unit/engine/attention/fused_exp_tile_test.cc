#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

// One head of one sequence without projections, its keys as values.
class BoundedTileTest : public ::testing::Test {
 protected:
  void Use(int64_t q_length, int64_t kv_length, float spread = 1) {
    std::mt19937 random(3);
    queries_ = RandomNumbers(q_length * kSize, random);
    keys_ = RandomNumbers(kv_length * kSize, random);
    for (float& number : queries_) number *= spread;
    call_.batch = 1;
    call_.q_length = q_length;
    call_.kv_length = kv_length;
    call_.heads = {1, 1, kSize, kSize};
    call_.options.scale = 0.5f;
  }

  HeadRows Rows(const std::vector<float>& numbers, HeadInput& tensor) {
    tensor = {.data = reinterpret_cast<const std::byte*>(numbers.data()), .token_stride = kSize};
    return {&tensor, 0, 0, kSize};
  }

  // Both ways of computing all queries; the contexts multiplied out.
  struct Both {
    TileResult bounded, softmax;
    std::vector<float> bounded_context, softmax_context;
  };

  Both Attend() {
    const HeadRows keys = Rows(keys_, key_tensor_);
    worker_.head.Read(worker_.onednn, call_.options.compute_dtype, keys, keys, {0, call_.kv_length},
                      ChunkKeys(call_.LimitsOf(0)));
    const HeadMask mask(call_, 0, 0);
    const RowOutputs outputs(call_, 0, 0);
    std::vector<float> log_sum_exp(call_.q_length);
    const Tile tile{call_,          Rows(queries_, query_tensor_),    mask, outputs, worker_, 0,
                    call_.q_length, mask.TileRange(0, call_.q_length)};
    Both both;
    call_.also.log_sum_exp = log_sum_exp.data();
    both.bounded = AttendBounded(tile);
    both.bounded_context = Contexts(both.bounded);
    both.softmax = AttendWithSoftmax(tile);
    call_.also.log_sum_exp = nullptr;
    both.softmax_context = Contexts(both.softmax);
    return both;
  }

  std::vector<float> Contexts(const TileResult& result) const {
    std::vector<float> contexts(result.context, result.context + call_.q_length * kSize);
    for (size_t i = 0; i < contexts.size(); ++i) contexts[i] *= static_cast<float>(result.factors[i / kSize]);
    return contexts;
  }

  void ExpectAlike(const Both& both, double tolerance) {
    for (int64_t row = 0; row < call_.q_length; ++row) {
      ASSERT_EQ(both.bounded.rows[row], both.softmax.rows[row]) << "row " << row;
      if (both.bounded.rows[row] != Row::kDone) continue;
      EXPECT_NEAR(both.bounded.log_sum_exp[row], both.softmax.log_sum_exp[row], tolerance) << "row " << row;
      for (int64_t i = row * kSize; i < (row + 1) * kSize; ++i) {
        EXPECT_NEAR(both.bounded_context[i], both.softmax_context[i], tolerance) << "row " << row;
      }
    }
  }

  AttentionCall call_;
  std::vector<float> queries_, keys_;
  HeadInput query_tensor_, key_tensor_;
  Worker worker_;
};

TEST_F(BoundedTileTest, AgreesWithTheSoftmax) {
  for (const int64_t kv_length : {1, 17, 512, 513, 1200}) {
    Use(30, kv_length);
    SCOPED_TRACE(kv_length);
    ExpectAlike(Attend(), 2e-6);
  }
}

TEST_F(BoundedTileTest, AgreesWithTheSoftmaxUnderADiagonal) {
  Use(60, 700);
  call_.mask.limits = {{.q_length = 60, .kv_length = 690, .first_offset = 580, .last_offset = 640}};
  ExpectAlike(Attend(), 2e-6);
  call_.mask.limits = {{.q_length = 60, .kv_length = 690, .last_offset = -20}};  // the first 20 see nothing
  const Both both = Attend();
  EXPECT_EQ(both.bounded.rows[19], Row::kSeesNoKey);
  EXPECT_EQ(both.bounded.rows[20], Row::kDone);
  ExpectAlike(both, 2e-6);
}

TEST_F(BoundedTileTest, AgreesWithTheSoftmaxInBFloat16) {
  Use(30, 700);
  call_.options.compute_dtype = DType::kBFloat16;
  ExpectAlike(Attend(), 2e-2);
}

TEST_F(BoundedTileTest, GivesUpARowWhoseScoresLieFarBelowTheBound) {
  Use(4, 20);
  // The longest key is opposite to query 1, whose scores with the others are small.
  for (int64_t i = 0; i < kSize; ++i) {
    keys_[i] = i == 0 ? 100.0f : 0.0f;
    queries_[kSize + i] = i == 0 ? -1.0f : 0.0f;
    queries_[2 * kSize + i] = i == 0 ? 1.0f : 0.0f;
  }
  const Both both = Attend();
  EXPECT_EQ(both.bounded.rows[1], Row::kUnreliable);
  EXPECT_EQ(both.bounded.rows[2], Row::kDone);
  EXPECT_EQ(both.softmax.rows[1], Row::kDone);
}

TEST_F(BoundedTileTest, GivesUpTheRowsThatSeeWhatIsNotFinite) {
  for (const float number : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Use(4, 20);
    call_.mask.limits = {{.q_length = 4, .kv_length = 20, .last_offset = 0}};
    const Both clean = Attend();
    keys_[2 * kSize] = number;
    const Both spoilt = Attend();
    EXPECT_EQ(spoilt.bounded.rows[1], Row::kDone);
    EXPECT_EQ(spoilt.bounded.rows[2], Row::kUnreliable);
    for (int64_t i = 0; i < 2 * kSize; ++i) EXPECT_EQ(spoilt.bounded_context[i], clean.bounded_context[i]);
  }
}

TEST(IsBoundedTest, LeavesToTheSoftmaxWhatChangesOrShowsScores) {
  const AttentionCall plain;
  EXPECT_TRUE(IsBounded(plain));
  AttentionCall call = plain;
  float number = 0;
  call.also.log_sum_exp = call.also.context = &number;
  call.mask.limits = {{}};
  EXPECT_TRUE(IsBounded(call));
  call = plain;
  call.options.softcap = 1;
  EXPECT_FALSE(IsBounded(call));
  call = plain;
  call.also.mean_attn_weights = &number;
  EXPECT_FALSE(IsBounded(call));
  call = plain;
  call.bias.data = reinterpret_cast<const std::byte*>(&number);
  EXPECT_FALSE(IsBounded(call));
  call = plain;
  call.mask.segments.q = {1};
  EXPECT_FALSE(IsBounded(call));
}

}  // namespace
}  // namespace attention::server
