// Small cases with results computed by hand or in float64: which query sees which key.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/testing/matchers.h"
#include "tests/testing/server/requests.h"
#include "tests/testing/server/running_server.h"
#include "tests/testing/server/wire.h"

namespace attention::test {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kMax = std::numeric_limits<float>::max();

// A request for the identity layer with two features, and its output. An empty inputs_v defaults to inputs_k.
struct Case {
  const char* name;
  std::vector<float> inputs_q;  // [q_length, 2]
  std::vector<float> inputs_k;  // [kv_length, 2]
  std::vector<float> inputs_v;  // [kv_length, 2]
  std::vector<uint8_t> mask;    // [q_length, kv_length]
  std::vector<double> output;   // [q_length, 2]
};

const Case kCases[] = {
    {"TrueMeansAttend", {1, 0, 0, 1}, {1, 1, 2, -1, -3, 5}, {}, {1, 0, 0, 1, 1, 0}, {1, 1, 1.19557032, 0.608859365}},
    {"ARowWithoutAVisibleKeyIsTheMeanOfAllValues",
     {1, 2, 3, -1, 0, 1},
     {1, 0, 0, 1, 4, 4, -2, 6},
     {},
     {1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0},
     {0.330238451, 0.669761549, 0.75, 2.75, 4, 4}},
    {"CausalFromTheTopLeft",
     {1, 0, 0, 1},
     {1, 0, 0, 1, 2, 2, -1, 3},
     {},
     {1, 0, 0, 0, 1, 1, 0, 0},
     {1, 0, 0.330238451, 0.669761549}},
    {"CausalFromTheBottomRight",
     {1, 0, 0, 1},
     {1, 0, 0, 1, 2, 2, -1, 3},
     {},
     {1, 1, 1, 0, 1, 1, 1, 1},
     {1.4359461, 1.29197994, 0.0571159922, 2.27862091}},
    {"CausalWithMoreQueriesThanKeys",
     {1, 0, 0, 1, 2, 2, -1, 3},
     {1, 0, 0, 1},
     {},
     {0, 0, 0, 0, 1, 0, 1, 1},
     {0.5, 0.5, 0.5, 0.5, 1, 0, 0.0558072192, 0.944192781}},
    {"NoCausalRuleOfItsOwn", {1, 0}, {1, 0, 0, 1, 2, 2, -1, 3}, {}, {1, 1, 1, 1}, {1.27862091, 1.40229214}},
    // A hidden score must be replaced: subtracting from it would overflow.
    {"HiddenScoresAreReplaced",
     {-1e19f, 0, -1e19f, 0},
     {2e19f, 0, 2e19f, 0, 2e19f, 0},
     {5, 1, 7, 2, 12, 3},
     {0, 0, 0, 1, 0, 1},
     {8, 2, 8.5, 2}},
    // Key 1 is NaN and hidden from the first and the last query. The last query sees no key.
    {"WhatStandsAtAHiddenKeyDoesNotShow",
     {1, 1, 1, 1, 1, 1},
     {0, 0, kNaN, 0},
     {1, 2, 3, 4},
     {1, 0, 1, 1, 0, 0},
     {1, 2, kNaN, kNaN, 2, 3}},
    {"HiddenInfinitiesDoNotShow",
     {1, 1, 1, 1},
     {kInf, 0, 0, 0, -kInf, 0, kMax, kMax},
     {1, 2, 3, 4, 5, 6, 7, 8},
     {0, 1, 0, 0, 0, 0, 0, 0},
     {3, 4, 4, 5}},
    {"AnInfiniteQuerySpoilsItsOwnRow",
     {kInf, 2, 3, -1},
     {1, 0, 0, 1},
     {},
     {1, 1, 1, 1},
     {kNaN, kNaN, 0.944192781, 0.0558072192}},
    {"AKeyThatIsNoNumberSpoilsTheRowsThatSeeIt",
     {1, 2, 3, -1},
     {1, 0, 0, kNaN},
     {},
     {1, 1, 1, 1},
     {kNaN, kNaN, kNaN, kNaN}},
};

class MaskSemanticsTest : public ::testing::TestWithParam<Case> {};

TEST_P(MaskSemanticsTest, GivesTheKnownOutput) {
  const Case& c = GetParam();
  auto running = RunningServer::Start({.checkpoints = {{"w", ToParameters(IdentityLayer(2))}}});
  ASSERT_THAT(running, IsOk());
  const int64_t q_length = static_cast<int64_t>(c.inputs_q.size()) / 2;
  const int64_t kv_length = static_cast<int64_t>(c.inputs_k.size()) / 2;
  v1::AttendRequest request;
  request.set_weight_set("w");
  *request.mutable_inputs_q() = WireFloats({q_length, 2}, c.inputs_q);
  *request.mutable_inputs_k() = WireFloats({kv_length, 2}, c.inputs_k);
  if (!c.inputs_v.empty()) *request.mutable_inputs_v() = WireFloats({kv_length, 2}, c.inputs_v);
  *request.mutable_mask()->mutable_dense() = WireBools({q_length, kv_length}, c.mask);
  const auto reply = (*running)->client().Attend(ClientRequest(request));
  ASSERT_THAT(reply, IsOk());
  EXPECT_THAT(reply->output, Near(Expected{{q_length, 2}, c.output, 1e-6, 1e-6}));
}

INSTANTIATE_TEST_SUITE_P(Cases, MaskSemanticsTest, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

// The identity layer with biases.
class ZeroSizesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    server::LayerParameters layer = IdentityLayer(2);
    layer.query_bias = {0.25, 0};
    layer.key_bias = {0, 0.5};
    layer.value_bias = {7, 9};
    layer.out_bias = {0.5, -1};
    auto running = RunningServer::Start({.checkpoints = {{"w", ToParameters(layer)}}});
    ASSERT_THAT(running, IsOk());
    running_ = *std::move(running);
  }

  absl::StatusOr<AttendReply> Attend(const std::vector<int64_t>& q_shape, const std::vector<int64_t>& k_shape) {
    v1::AttendRequest request;
    request.set_weight_set("w");
    *request.mutable_inputs_q() = WireFloats(q_shape, std::vector<float>(*server::ElementCount(q_shape), 1));
    *request.mutable_inputs_k() = WireFloats(k_shape, std::vector<float>(*server::ElementCount(k_shape), 1));
    return running_->client().Attend(ClientRequest(request));
  }

  std::unique_ptr<RunningServer> running_;
};

TEST_F(ZeroSizesTest, WithoutKeysTheOutputIsTheOutputBias) {
  const auto reply = Attend({1, 3, 2}, {1, 0, 2});
  ASSERT_THAT(reply, IsOk());
  EXPECT_THAT(reply->output, Near(Expected{{1, 3, 2}, {0.5, -1, 0.5, -1, 0.5, -1}}));
}

TEST_F(ZeroSizesTest, WithoutQueriesOrSequencesTheOutputIsEmpty) {
  const std::vector<int64_t> shapes[][2] = {{{1, 0, 2}, {1, 3, 2}}, {{0, 3, 2}, {0, 4, 2}}, {{0, 0, 2}, {0, 0, 2}}};
  for (const auto& [q_shape, k_shape] : shapes) {
    const auto reply = Attend(q_shape, k_shape);
    ASSERT_THAT(reply, IsOk());
    EXPECT_THAT(reply->output, Near(Expected{q_shape, {}}));
  }
}

TEST_F(ZeroSizesTest, WithoutFeaturesTheRequestIsRejected) {
  EXPECT_THAT(Attend({1, 3, 0}, {1, 3, 0}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       ::testing::AllOf(::testing::HasSubstr("inputs_q"), ::testing::HasSubstr("0"))));
}

}  // namespace
}  // namespace attention::test
