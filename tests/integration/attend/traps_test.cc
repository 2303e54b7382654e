// Common mistakes with attention, with numbers computed by hand. The comments also give the result of the mistake.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/testing/matchers.h"
#include "tests/testing/server/requests.h"
#include "tests/testing/server/running_server.h"
#include "tests/testing/server/wire.h"

namespace attention::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const float kLog3 = std::log(3.0f);
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// One head with head_dim 1, so the scale is 1 and a score is query · key. [length, 1, 1].
v1::AttendRequest Ask(const std::vector<float>& query, const std::vector<float>& key, const std::vector<float>& value) {
  v1::AttendRequest request;
  request.mutable_heads()->set_num_heads(1);
  request.mutable_heads()->set_axes(v1::HeadLayout::AXES_LENGTH_HEADS);
  *request.mutable_inputs_q() = WireFloats({static_cast<int64_t>(query.size()), 1, 1}, query);
  *request.mutable_inputs_k() = WireFloats({static_cast<int64_t>(key.size()), 1, 1}, key);
  *request.mutable_inputs_v() = WireFloats({static_cast<int64_t>(value.size()), 1, 1}, value);
  return request;
}

class TrapsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto running = RunningServer::Start({.checkpoints = {{"ones", ToParameters(OnesLayer())}}});
    ASSERT_THAT(running, IsOk());
    running_ = *std::move(running);
  }

  absl::StatusOr<AttendReply> Attend(const v1::AttendRequest& request) {
    return running_->client().Attend(ClientRequest(request));
  }

  // Compares every element of the output, up to float32 rounding.
  void ExpectOutput(const v1::AttendRequest& request, const std::vector<double>& expected) {
    const auto reply = Attend(request);
    ASSERT_THAT(reply, IsOk());
    EXPECT_THAT(reply->output, Near(Expected{reply->output.shape, expected, 1e-6, 1e-6}));
  }

  std::unique_ptr<RunningServer> running_;
};

// Three keys of equal score with values 1, 2 and 6, of which only the first is visible: 1. If true meant "ignore", as
// in PyTorch's key_padding_mask, the result would be (2 + 6) / 2 = 4.
TEST_F(TrapsTest, MaskPolarity) {
  v1::AttendRequest request = Ask({1}, {0, 0, 0}, {1, 2, 6});
  *request.mutable_mask()->mutable_dense() = WireBools({3}, {1, 0, 0});
  ExpectOutput(request, {1});
  *request.mutable_mask()->mutable_dense() = WireBools({3}, {0, 1, 1});  // a key_padding_mask, not inverted
  ExpectOutput(request, {4});
}

// Four keys of equal score, two queries. From the top left corner they see 1 and 2 keys: 1 and (1 + 2) / 2. From the
// bottom right corner they see 3 and 4 keys: (1 + 2 + 9) / 3 and (1 + 2 + 9 + 20) / 4.
TEST_F(TrapsTest, CausalCorner) {
  v1::AttendRequest request = Ask({1, 1}, {0, 0, 0, 0}, {1, 2, 9, 20});
  v1::Diagonal& causal = *request.mutable_mask()->mutable_causal();
  causal.set_corner(v1::Diagonal::CORNER_TOP_LEFT);
  ExpectOutput(request, {1, 1.5});
  causal.set_corner(v1::Diagonal::CORNER_BOTTOM_RIGHT);
  ExpectOutput(request, {4, 8});
}

// One new query, whose key follows three cached ones: all four must be visible. From the top left corner only one
// is: 1.
TEST_F(TrapsTest, CausalCornerWithACache) {
  v1::AttendRequest request = Ask({1}, {0, 0, 0, 0}, {1, 2, 9, 20});
  v1::Diagonal& causal = *request.mutable_mask()->mutable_causal();
  causal.set_offset(3);
  ExpectOutput(request, {8});
  causal.set_corner(v1::Diagonal::CORNER_BOTTOM_RIGHT);
  ExpectOutput(request, {8});
  causal.set_corner(v1::Diagonal::CORNER_TOP_LEFT);
  ExpectOutput(request, {1});
}

// Without a corner the request is rejected, not guessed.
TEST_F(TrapsTest, CausalCornerAbsent) {
  v1::AttendRequest request = Ask({1, 1}, {0, 0}, {1, 2});
  request.mutable_mask()->mutable_causal();
  EXPECT_THAT(running_->AttendRaw(request).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("mask.causal")));
}

// No key is visible: the mean of the values, (1 + 2 + 6) / 3, as in flax; or zero, as in ONNX and PyTorch; or an error.
TEST_F(TrapsTest, EmptyRows) {
  v1::AttendRequest request = Ask({1}, {5, 0, 0}, {1, 2, 6});
  *request.mutable_mask()->mutable_dense() = WireBools({1}, {0});
  ExpectOutput(request, {3});
  request.mutable_options()->set_empty_rows(v1::EMPTY_ROWS_UNIFORM);
  ExpectOutput(request, {3});
  request.mutable_options()->set_empty_rows(v1::EMPTY_ROWS_ZERO);
  ExpectOutput(request, {0});
  request.mutable_options()->set_empty_rows(v1::EMPTY_ROWS_ERROR);
  EXPECT_THAT(Attend(request), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("empty_rows")));
}

// head_dim 4: the query is halved, so the scores are ln 3 and 0. The bias is not halved and makes them equal:
// (0 + 4) / 2. If the bias were halved too, the weight of value 4 would be 1 / (1 + √3) and the result 1.46. Without a
// scale, or with a scale of 1, the weights would be 3/4 and 1/4 and the result 1.
TEST_F(TrapsTest, ScaleAppliesToTheQueryNotToTheBias) {
  v1::AttendRequest request = Ask({1}, {0, 0}, {0, 4});
  *request.mutable_inputs_q() = WireFloats({1, 1, 4}, {1, 1, 0, 0});
  *request.mutable_inputs_k() = WireFloats({2, 1, 4}, {kLog3, kLog3, 0, 0, 0, 0, 9, 9});
  *request.mutable_bias() = WireFloats({2}, {0, kLog3});
  ExpectOutput(request, {2});
  request.mutable_options()->set_scale(1);
  ExpectOutput(request, {1});
}

// Two heads with head_dim 4: the scale is 1/√4, not 1/√8. Scores of 2 ln 3 / 2 and 0 give the values 0 and 4 the
// weights 3/4 and 1/4 in both heads.
TEST_F(TrapsTest, ScaleUsesTheHeadDim) {
  v1::AttendRequest request = Ask({1}, {0, 0}, {0, 4});
  request.mutable_heads()->set_num_heads(2);
  request.mutable_heads()->set_axes(v1::HeadLayout::AXES_LENGTH_FEATURES);
  *request.mutable_inputs_q() = WireFloats({1, 8}, {1, 1, 1, 1, 1, 1, 1, 1});
  *request.mutable_inputs_k() = WireFloats({2, 8}, {kLog3, kLog3, 0, 0, 0, 0, kLog3, kLog3, 0, 0, 0, 0, 0, 0, 0, 0});
  *request.mutable_inputs_v() = WireFloats({2, 2}, {0, 0, 4, 4});
  ExpectOutput(request, {1, 1});
}

// A mask of 0 and −10000 is rejected. The error names the bias as the right field, where the numbers hide the second
// key.
TEST_F(TrapsTest, FloatMask) {
  v1::AttendRequest request = Ask({1}, {0, 0}, {3, 5});
  *request.mutable_mask()->mutable_dense() = WireFloats({2}, {0, -10000});
  EXPECT_THAT(Attend(request),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("mask.dense"), HasSubstr("float32"), HasSubstr("bool"), HasSubstr("bias"))));
  request.mutable_bias()->Swap(request.mutable_mask()->mutable_dense());
  request.clear_mask();
  ExpectOutput(request, {3});
}

// Scores of ±1000 are capped to ±ln 3 / 2, so the values 0 and 4 have the weights 3/4 and 1/4; the third key is hidden.
// If the cap were applied after the mask, it would be visible with −ln 3 / 2, and the result (0 · 3 + 4 + 100) / 5
// = 20.8.
TEST_F(TrapsTest, SoftcapComesBeforeTheMask) {
  v1::AttendRequest request = Ask({1000}, {1, -1, 1}, {0, 4, 100});
  request.mutable_options()->set_softcap(kLog3 / 2);
  *request.mutable_mask()->mutable_dense() = WireBools({3}, {1, 1, 0});
  ExpectOutput(request, {1});
  request.clear_mask();
  *request.mutable_bias() = WireFloats({3}, {0, 0, kMinusInfinity});
  ExpectOutput(request, {1});
  // A bias of ln 3 is not capped, and makes both scores equal.
  *request.mutable_bias() = WireFloats({3}, {0, kLog3, kMinusInfinity});
  ExpectOutput(request, {2});
}

// Four query heads, two key and value heads: query heads 0 and 1 use the first. If they alternated, the result would be
// 10, 20, 10, 20.
TEST_F(TrapsTest, GroupedHeadOrder) {
  v1::AttendRequest request = Ask({1}, {1}, {1});
  request.mutable_heads()->set_num_heads(4);
  request.mutable_heads()->set_num_kv_heads(2);
  *request.mutable_inputs_q() = WireFloats({1, 4, 1}, {1, 1, 1, 1});
  *request.mutable_inputs_k() = WireFloats({1, 2, 1}, {1, 1});
  *request.mutable_inputs_v() = WireFloats({1, 2, 1}, {10, 20});
  ExpectOutput(request, {10, 10, 20, 20});
}

// As many heads as tokens, so the shape does not tell the axes apart. Keys of equal score; a query sees the values 1
// and 2 of its head, or 1 and 10 with exchanged axes.
TEST_F(TrapsTest, AxesOfTheHeads) {
  v1::AttendRequest request = Ask({1}, {1}, {1});
  request.mutable_heads()->set_num_heads(2);
  *request.mutable_inputs_q() = WireFloats({2, 2, 1}, {1, 1, 1, 1});
  *request.mutable_inputs_k() = WireFloats({2, 2, 1}, {0, 0, 0, 0});
  *request.mutable_inputs_v() = WireFloats({2, 2, 1}, {1, 2, 10, 20});
  request.mutable_heads()->set_axes(v1::HeadLayout::AXES_HEADS_LENGTH);
  ExpectOutput(request, {1.5, 1.5, 15, 15});
  request.mutable_heads()->set_axes(v1::HeadLayout::AXES_LENGTH_HEADS);
  ExpectOutput(request, {5.5, 11, 5.5, 11});
}

// Keys of equal score with values 1, 2, 4, 8, 16. One key to the left and one to the right: three keys, not two.
TEST_F(TrapsTest, WindowEndsAreInclusive) {
  v1::AttendRequest request = Ask({1, 1, 1, 1, 1}, {0, 0, 0, 0, 0}, {1, 2, 4, 8, 16});
  v1::SlidingWindow& window = *request.mutable_mask()->mutable_window();
  window.mutable_diagonal()->set_corner(v1::Diagonal::CORNER_TOP_LEFT);
  window.set_left(1);
  window.set_right(1);
  ExpectOutput(request, {1.5, 7.0 / 3, 14.0 / 3, 28.0 / 3, 12});
  // One key to the left of the diagonal, none to the right: two keys, like JAX's causal window (1, 0).
  window.set_right(0);
  ExpectOutput(request, {1, 1.5, 3, 6, 12});
  window.set_left(0);
  ExpectOutput(request, {1, 2, 4, 8, 16});
}

// The public question: inputs_q = dst and inputs_k = src give 3.9975274. Exchanged, they give a plausible constant 3.
TEST_F(TrapsTest, ExchangedInputs) {
  v1::AttendRequest request = QuestionRequest("ones");
  ExpectOutput(request, std::vector<double>(8, 3.99752738));
  request.mutable_inputs_q()->Swap(request.mutable_inputs_k());
  ExpectOutput(request, std::vector<double>(8, 3));
}

// No dropout when serving: four keys of equal score have the weight 1/4 each, never 0 or 1/4 / (1 − rate), and a second
// call gives the same result.
TEST_F(TrapsTest, DropoutIsNotApplied) {
  v1::AttendRequest request = Ask({1}, {0, 0, 0, 0}, {1, 2, 9, 20});
  request.mutable_options()->set_return_attn_weights(true);
  for (int time = 0; time < 2; ++time) {
    const auto reply = Attend(request);
    ASSERT_THAT(reply, IsOk());
    EXPECT_THAT(*reply->attn_weights, Near(Expected{{1, 1, 4}, {0.25, 0.25, 0.25, 0.25}}));
    EXPECT_THAT(reply->output, Near(Expected{{1, 1, 1}, {8}}));
  }
}

}  // namespace
}  // namespace attention::test
