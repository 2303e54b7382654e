// Traps that people have fallen into with attention, each with numbers worked out by hand: the right answer, and in the
// comment what the mistake would give.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/testing/matchers.h"
#include "tests/testing/requests.h"
#include "tests/testing/running_server.h"
#include "tests/testing/wire.h"

namespace attention::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const float kLog3 = std::log(3.0f);
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// One head of one number, so the scale is 1: a score is query · key. [length, 1, 1].
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

  // Each number of the output is the wanted one, to float32's rounding.
  void ExpectOutput(const v1::AttendRequest& request, const std::vector<double>& wanted) {
    const auto reply = Attend(request);
    ASSERT_THAT(reply, IsOk());
    EXPECT_THAT(reply->output, Near(Expected{reply->output.shape, wanted, 1e-6, 1e-6}));
  }

  std::unique_ptr<RunningServer> running_;
};

// Three keys of equal score with values 1, 2 and 6, of which only the first may be seen: 1. Were true "ignore", as in
// PyTorch's key_padding_mask, it would be (2 + 6) / 2 = 4.
TEST_F(TrapsTest, MaskPolarity) {
  v1::AttendRequest request = Ask({1}, {0, 0, 0}, {1, 2, 6});
  *request.mutable_mask()->mutable_dense() = WireBools({3}, {1, 0, 0});
  ExpectOutput(request, {1});
  *request.mutable_mask()->mutable_dense() = WireBools({3}, {0, 1, 1});  // key_padding_mask, passed on as it is
  ExpectOutput(request, {4});
}

// Four keys of equal score, two queries. From the top left they see 1 and 2 keys: 1 and (1 + 2) / 2. From the bottom
// right 3 and 4: (1 + 2 + 9) / 3 and (1 + 2 + 9 + 20) / 4.
TEST_F(TrapsTest, CausalCorner) {
  v1::AttendRequest request = Ask({1, 1}, {0, 0, 0, 0}, {1, 2, 9, 20});
  v1::Diagonal& causal = *request.mutable_mask()->mutable_causal();
  causal.set_corner(v1::Diagonal::CORNER_TOP_LEFT);
  ExpectOutput(request, {1, 1.5});
  causal.set_corner(v1::Diagonal::CORNER_BOTTOM_RIGHT);
  ExpectOutput(request, {4, 8});
}

// One new query and three keys in a cache before its own: all four are to be seen. From the top left it sees one: 1.
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

// Without a corner there is no answer to guess at.
TEST_F(TrapsTest, CausalCornerLeftOut) {
  v1::AttendRequest request = Ask({1, 1}, {0, 0}, {1, 2});
  request.mutable_mask()->mutable_causal();
  EXPECT_THAT(running_->AttendRaw(request).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("mask.causal")));
}

// Nobody may be seen: the mean of the values, (1 + 2 + 6) / 3, as in flax; or zero, as in ONNX and PyTorch; or an
// error.
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

// Head of four numbers: the query is halved, then the scores are ln 3 and 0. The bias, which is not halved, makes them
// equal: (0 + 4) / 2. Were the bias halved too, the weight of value 4 would be 1 / (1 + √3) and the answer 1.46;
// without a scale, or with one of 1, the weights are 3/4 and 1/4 and the answer is 1.
TEST_F(TrapsTest, ScaleIsForTheQueryAndNotForTheBias) {
  v1::AttendRequest request = Ask({1}, {0, 0}, {0, 4});
  *request.mutable_inputs_q() = WireFloats({1, 1, 4}, {1, 1, 0, 0});
  *request.mutable_inputs_k() = WireFloats({2, 1, 4}, {kLog3, kLog3, 0, 0, 0, 0, 9, 9});
  *request.mutable_bias() = WireFloats({2}, {0, kLog3});
  ExpectOutput(request, {2});
  request.mutable_options()->set_scale(1);
  ExpectOutput(request, {1});
}

// Two heads of four numbers side by side: the scale is that of one head, 1/√4, not 1/√8. Scores of 2 ln 3 / 2 and 0
// weigh the values 0 and 4 3 to 1 in both heads.
TEST_F(TrapsTest, ScaleIsThatOfOneHead) {
  v1::AttendRequest request = Ask({1}, {0, 0}, {0, 4});
  request.mutable_heads()->set_num_heads(2);
  request.mutable_heads()->set_axes(v1::HeadLayout::AXES_LENGTH_FEATURES);
  *request.mutable_inputs_q() = WireFloats({1, 8}, {1, 1, 1, 1, 1, 1, 1, 1});
  *request.mutable_inputs_k() = WireFloats({2, 8}, {kLog3, kLog3, 0, 0, 0, 0, kLog3, kLog3, 0, 0, 0, 0, 0, 0, 0, 0});
  *request.mutable_inputs_v() = WireFloats({2, 2}, {0, 0, 4, 4});
  ExpectOutput(request, {1, 1});
}

// 0 and −10000 as a mask: neither a truth value nor to be taken for one. The refusal says where such numbers belong,
// and there they hide the second key.
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

// Scores of ±1000 are capped to ±ln 3 / 2 and weigh the values 0 and 4 3 to 1; the third key is hidden. Were the cap
// after the mask it would come back with −ln 3 / 2, and the answer would be (0 · 3 + 4 + 100) / 5 = 20.8.
TEST_F(TrapsTest, SoftcapComesBeforeTheMask) {
  v1::AttendRequest request = Ask({1000}, {1, -1, 1}, {0, 4, 100});
  request.mutable_options()->set_softcap(kLog3 / 2);
  *request.mutable_mask()->mutable_dense() = WireBools({3}, {1, 1, 0});
  ExpectOutput(request, {1});
  request.clear_mask();
  *request.mutable_bias() = WireFloats({3}, {0, 0, kMinusInfinity});
  ExpectOutput(request, {1});
  // A bias of ln 3 is not capped either: it makes both keys equal.
  *request.mutable_bias() = WireFloats({3}, {0, kLog3, kMinusInfinity});
  ExpectOutput(request, {2});
}

// Four query heads, two heads of keys and values: heads 0 and 1 meet the first. In turns it would be 10, 20, 10, 20.
TEST_F(TrapsTest, GroupedHeadOrder) {
  v1::AttendRequest request = Ask({1}, {1}, {1});
  request.mutable_heads()->set_num_heads(4);
  request.mutable_heads()->set_num_kv_heads(2);
  *request.mutable_inputs_q() = WireFloats({1, 4, 1}, {1, 1, 1, 1});
  *request.mutable_inputs_k() = WireFloats({1, 2, 1}, {1, 1});
  *request.mutable_inputs_v() = WireFloats({1, 2, 1}, {10, 20});
  ExpectOutput(request, {10, 10, 20, 20});
}

// As many heads as tokens: nothing in the shape says which axis is which. Keys of equal score; a query sees the values
// 1 and 2 of its head, or, with the axes exchanged, 1 and 10.
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
  // To the left of the diagonal one key, to the right none: two keys, the causal window of JAX's (1, 0).
  window.set_right(0);
  ExpectOutput(request, {1, 1.5, 3, 6, 12});
  window.set_left(0);
  ExpectOutput(request, {1, 2, 4, 8, 16});
}

// The question that this service was asked for: inputs_q = dst and inputs_k = src give 3.9975274; exchanged they give
// the constant 3, which looks like an answer.
TEST_F(TrapsTest, ExchangedInputs) {
  v1::AttendRequest request = QuestionRequest("ones");
  ExpectOutput(request, std::vector<double>(8, 3.99752738));
  request.mutable_inputs_q()->Swap(request.mutable_inputs_k());
  ExpectOutput(request, std::vector<double>(8, 3));
}

// A layer that was trained with dropout has none when it serves: four keys of equal score weigh 1/4 each, never 0 or
// 1/4 / (1 − rate), and the second answer is the first.
TEST_F(TrapsTest, NothingIsDroppedOut) {
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
