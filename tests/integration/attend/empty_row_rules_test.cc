// Query rows without a visible key, for every way to hide keys, and query rows after q_lengths.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/testing/matchers.h"
#include "tests/testing/server/requests.h"
#include "tests/testing/server/running_server.h"
#include "tests/testing/server/together.h"
#include "tests/testing/server/wire.h"

namespace attention::test {
namespace {

using absl::StatusCode;
using ::testing::HasSubstr;

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// The identity layer with one feature, and an output bias that distinguishes a zero context from a zero output.
server::LayerParameters BiasedLayer() {
  server::LayerParameters layer = IdentityLayer(1);
  layer.out_bias = {0.5};
  return layer;
}

// Two sequences of two queries and three keys of equal score; values 1, 2, 6 and 10, 20, 60.
v1::AttendRequest TwoSequences() {
  v1::AttendRequest request;
  request.set_weight_set("w");
  *request.mutable_inputs_q() = WireFloats({2, 2, 1}, {1, 1, 1, 1});
  *request.mutable_inputs_k() = WireFloats({2, 3, 1}, {0, 0, 0, 0, 0, 0});
  *request.mutable_inputs_v() = WireFloats({2, 3, 1}, {1, 2, 6, 10, 20, 60});
  return request;
}

// Hides every key of TwoSequences from the first query of the second sequence.
struct Case {
  const char* name;
  void (*hide)(v1::AttendRequest& request);
  std::vector<double> others;  // outputs of rows 0, 1 and 3
};

const Case kCases[] = {
    {"Dense",
     [](v1::AttendRequest& request) {
       *request.mutable_mask()->mutable_dense() = WireBools({2, 1, 2, 1}, {1, 1, 0, 1});
     },
     {3.5, 3.5, 30.5}},
    {"Bias",
     [](v1::AttendRequest& request) {
       *request.mutable_bias() = WireFloats({2, 1, 2, 1}, {0, 0, kMinusInfinity, 0});
     },
     {3.5, 3.5, 30.5}},
    // The offset is 3 − 2 in the first sequence and 1 − 2 in the second.
    {"Causal",
     [](v1::AttendRequest& request) {
       request.mutable_mask()->mutable_causal()->set_corner(v1::Diagonal::CORNER_BOTTOM_RIGHT);
       request.mutable_mask()->add_kv_lengths(3);
       request.mutable_mask()->add_kv_lengths(1);
     },
     {2, 3.5, 10.5}},
    {"Segments",
     [](v1::AttendRequest& request) {
       *request.mutable_mask()->mutable_q_segment_ids() = WireInt32s({2, 2}, {1, 1, 5, 1});
       *request.mutable_mask()->mutable_kv_segment_ids() = WireInt32s({3}, {1, 1, 2});
     },
     {2, 2, 15.5}},
    // The bias hides the only key that the mask leaves visible.
    {"MaskAndBias",
     [](v1::AttendRequest& request) {
       *request.mutable_mask()->mutable_dense() = WireBools({2, 1, 2, 3}, {1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1});
       *request.mutable_bias() = WireFloats({3}, {0, 0, kMinusInfinity});
     },
     {2, 2, 15.5}},
};

class EmptyRowRulesTest : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    auto running = RunningServer::Start({.checkpoints = {{"w", ToParameters(BiasedLayer())}}});
    ASSERT_THAT(running, IsOk());
    running_ = *std::move(running);
    request_ = TwoSequences();
    GetParam().hide(request_);
  }

  absl::StatusOr<AttendReply> Attend(v1::EmptyRows rule) {
    request_.mutable_options()->set_empty_rows(rule);
    return running_->client().Attend(ClientRequest(request_));
  }

  // The output if the empty row is `row`.
  Expected ExpectedOutput(double row) const {
    const std::vector<double>& others = GetParam().others;
    return {{2, 2, 1}, {others[0], others[1], row, others[2]}, 1e-5};
  }

  std::unique_ptr<RunningServer> running_;
  v1::AttendRequest request_;
};

// (10 + 20 + 60) / 3, including padding keys, plus the bias of the layer.
TEST_P(EmptyRowRulesTest, AreTheMeanOfAllValuesOfTheirSequence) {
  request_.mutable_options()->set_return_attn_weights(true);
  for (const auto rule : {v1::EMPTY_ROWS_UNSPECIFIED, v1::EMPTY_ROWS_UNIFORM}) {
    const auto reply = Attend(rule);
    ASSERT_THAT(reply, IsOk());
    EXPECT_THAT(reply->output, Near(ExpectedOutput(30.5)));
    EXPECT_EQ(reply->empty_rows, 1);
    const std::vector<float> weights = reply->attn_weights->Floats();
    for (int key = 0; key < 3; ++key) EXPECT_FLOAT_EQ(weights[6 + key], 1.0f / 3);
  }
}

TEST_P(EmptyRowRulesTest, AreZeroIfTheRequestSaysSo) {
  request_.mutable_options()->set_return_attn_weights(true);
  const auto reply = Attend(v1::EMPTY_ROWS_ZERO);
  ASSERT_THAT(reply, IsOk());
  EXPECT_THAT(reply->output, Near(ExpectedOutput(0.5)));
  EXPECT_EQ(reply->empty_rows, 1);
  const std::vector<float> weights = reply->attn_weights->Floats();
  for (int key = 0; key < 3; ++key) EXPECT_EQ(weights[6 + key], 0);
}

TEST_P(EmptyRowRulesTest, AreAnErrorIfTheRequestSaysSo) {
  EXPECT_THAT(Attend(v1::EMPTY_ROWS_ERROR),
              StatusIs(StatusCode::kInvalidArgument,
                       "mask: expected a visible key for every query row because options.empty_rows is ERROR, got 1 "
                       "row without one at [sequence 1, head 0, query 0]"));
}

INSTANTIATE_TEST_SUITE_P(Masks, EmptyRowRulesTest, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

class EmptyRowCountsTest : public ::testing::Test {
 protected:
  void Start(const server::Config& config = {}) {
    auto running = RunningServer::Start({.checkpoints = {{"w", ToParameters(BiasedLayer())}}, .config = config});
    ASSERT_THAT(running, IsOk());
    running_ = *std::move(running);
  }

  absl::StatusOr<AttendReply> Attend(const v1::AttendRequest& request) {
    return running_->client().Attend(ClientRequest(request));
  }

  std::unique_ptr<RunningServer> running_;
};

// Six queries in each of two heads. Head 1 sees no key.
v1::AttendRequest TwoHeads() {
  v1::AttendRequest request;
  request.mutable_heads()->set_num_heads(2);
  request.mutable_heads()->set_num_kv_heads(1);
  request.mutable_heads()->set_axes(v1::HeadLayout::AXES_HEADS_LENGTH);
  *request.mutable_inputs_q() = WireFloats({2, 6, 1}, std::vector<float>(12, 1));
  *request.mutable_inputs_k() = WireFloats({1, 2, 1}, {0, 0});
  *request.mutable_inputs_v() = WireFloats({1, 2, 1}, {3, 5});
  *request.mutable_mask()->mutable_dense() = WireBools({2, 1, 1}, {1, 0});
  return request;
}

TEST_F(EmptyRowCountsTest, AreCountedInEachHead) {
  ASSERT_NO_FATAL_FAILURE(Start());
  v1::AttendRequest request = TwoHeads();
  request.mutable_options()->set_empty_rows(v1::EMPTY_ROWS_ZERO);
  auto reply = Attend(request);
  ASSERT_THAT(reply, IsOk());
  EXPECT_EQ(reply->empty_rows, 6);
  EXPECT_THAT(reply->output, Near(Expected{{2, 6, 1}, {4, 4, 4, 4, 4, 4, 0, 0, 0, 0, 0, 0}}));
  // Rows after q_lengths are not counted.
  request.mutable_mask()->add_q_lengths(2);
  reply = Attend(request);
  ASSERT_THAT(reply, IsOk());
  EXPECT_EQ(reply->empty_rows, 2);
  EXPECT_THAT(reply->output, Near(Expected{{2, 6, 1}, {4, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}}));
}

TEST_F(EmptyRowCountsTest, AreListedInTheError) {
  ASSERT_NO_FATAL_FAILURE(Start());
  v1::AttendRequest request = TwoHeads();
  request.mutable_options()->set_empty_rows(v1::EMPTY_ROWS_ERROR);
  EXPECT_THAT(Attend(request),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("got 6 rows without one, the first at [sequence "
                                                               "0, head 1, query 0], [sequence 0, head 1, query 1]")));
  *request.mutable_mask()->mutable_dense() = WireBools({1}, {1});
  EXPECT_THAT(Attend(request), IsOk());
}

// Without keys every row is empty.
TEST_F(EmptyRowCountsTest, AreAllRowsWithoutKeys) {
  ASSERT_NO_FATAL_FAILURE(Start());
  v1::AttendRequest request;
  request.set_weight_set("w");
  *request.mutable_inputs_q() = WireFloats({2, 1}, {1, 2});
  *request.mutable_inputs_k() = WireFloats({0, 1}, {});
  for (const auto rule : {v1::EMPTY_ROWS_UNIFORM, v1::EMPTY_ROWS_ZERO}) {
    request.mutable_options()->set_empty_rows(rule);
    const auto reply = Attend(request);
    ASSERT_THAT(reply, IsOk());
    EXPECT_EQ(reply->empty_rows, 2);
    EXPECT_THAT(reply->output, Near(Expected{{2, 1}, {0.5, 0.5}}));
  }
  request.mutable_options()->set_empty_rows(v1::EMPTY_ROWS_ERROR);
  EXPECT_THAT(Attend(request),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("got 2 rows without one, the first at ")));
}

TEST_F(EmptyRowCountsTest, FailNoOtherRequestOfTheBatch) {
  ASSERT_NO_FATAL_FAILURE(Start(SharingConfig(2)));
  v1::AttendRequest bad = TwoHeads();
  bad.mutable_options()->set_empty_rows(v1::EMPTY_ROWS_ERROR);
  v1::AttendRequest good = TwoHeads();
  good.clear_mask();
  const auto replies = AttendTogether(running_->client(), {bad, good});
  EXPECT_THAT(replies[0], StatusIs(StatusCode::kInvalidArgument, HasSubstr("got 6 rows without one, the first at ")));
  ASSERT_THAT(replies[1], IsOk());
  EXPECT_EQ(replies[1]->timing.batch_requests, 2);
  EXPECT_THAT(replies[1]->output, Near(Expected{{2, 6, 1}, std::vector<double>(12, 4)}));
}

// With a layer too: the output bias is not added to rows after q_lengths.
TEST_F(EmptyRowCountsTest, AfterTheQueryLengthAreZeroInEveryResult) {
  ASSERT_NO_FATAL_FAILURE(Start());
  v1::AttendRequest request = TwoSequences();
  request.mutable_mask()->add_q_lengths(1);
  request.mutable_mask()->add_q_lengths(0);
  AskForEverything({1, 1, 1, 1}, request);
  const auto reply = Attend(request);
  ASSERT_THAT(reply, IsOk());
  EXPECT_EQ(reply->empty_rows, 0);
  const Expected first_of_three = {{2, 1, 2, 3}, {1.0 / 3, 1.0 / 3, 1.0 / 3, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 1e-6};
  EXPECT_THAT(reply->output, Near(Expected{{2, 2, 1}, {3.5, 0, 0, 0}, 1e-5}));
  EXPECT_THAT(reply->intermediates->query.value(), Near(Expected{{2, 2, 1, 1}, {1, 0, 0, 0}}));
  EXPECT_THAT(reply->intermediates->context, Near(Expected{{2, 2, 1, 1}, {3, 0, 0, 0}, 1e-5}));
  EXPECT_THAT(reply->intermediates->masked_scores, Near(Expected{{2, 1, 2, 3}, std::vector<double>(12, 0)}));
  EXPECT_THAT(*reply->attn_weights, Near(first_of_three));
  EXPECT_THAT(*reply->log_sum_exp, Near(Expected{{2, 1, 2}, {std::log(3.0), 0, 0, 0}, 1e-6}));
  EXPECT_THAT(reply->top_keys->keys, Near(Expected{{2, 1, 2, 3}, {0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0}}));
  EXPECT_THAT(reply->top_keys->weights, Near(first_of_three));
}

}  // namespace
}  // namespace attention::test
