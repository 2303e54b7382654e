// Finite requests whose exact result exceeds the type of a tensor end with OUT_OF_RANGE, which names the tensor.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "tests/testing/files/weights.h"
#include "tests/testing/matchers.h"
#include "tests/testing/server/running_server.h"
#include "tests/testing/server/wire.h"

namespace attention::test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// A layer that multiplies a single number by these.
struct Scales {
  float query, key, value, out;
};

Parameters LayerOf(const Scales& scales) {
  server::LayerParameters layer;
  layer.shape = {1, 1, 1, {1, 1, 1, 1}, 1};
  layer.query_kernel = {scales.query};
  layer.key_kernel = {scales.key};
  layer.value_kernel = {scales.value};
  layer.out_kernel = {scales.out};
  return ToParameters(layer);
}

// One query, one key and one value of size 1.
v1::AttendRequest Request(float query, float key, float value) {
  v1::AttendRequest request;
  *request.mutable_inputs_q() = WireFloats({1, 1}, {query});
  *request.mutable_inputs_k() = WireFloats({1, 1}, {key});
  *request.mutable_inputs_v() = WireFloats({1, 1}, {value});
  return request;
}

v1::AttendRequest WithoutLayer(float query, float key, float value) {
  v1::AttendRequest request = Request(query, key, value);
  request.mutable_heads()->set_num_heads(1);
  request.mutable_heads()->set_axes(v1::HeadLayout::AXES_LENGTH_FEATURES);
  return request;
}

struct Case {
  const char* name;
  v1::AttendRequest request;
  std::function<void(v1::AttendRequest&)> change;
  const char* message;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

Case OnLayer(const char* name, float query, float key, float value, const char* message) {
  return {name, Request(query, key, value), [](auto& request) { request.set_weight_set("tens"); }, message};
}

std::vector<Case> Cases() {
  const auto in = [](v1::DataType dtype) {
    return [dtype](v1::AttendRequest& request) { request.mutable_options()->set_output_dtype(dtype); };
  };
  const auto with_bias = [](float bias) {
    return [bias](v1::AttendRequest& request) {
      *request.mutable_bias() = WireFloats({1}, {bias});
      request.mutable_options()->set_return_log_sum_exp(true);
    };
  };
  return {
      {"OutputInFloat16", WithoutLayer(1, 1, -65520), in(v1::DATA_TYPE_FLOAT16),
       "output: expected numbers within the range of float16, got a larger one"},
      {"OutputInBFloat16", WithoutLayer(1, 1, 3.4e38f), in(v1::DATA_TYPE_BFLOAT16),
       "output: expected numbers within the range of bfloat16, got a larger one"},
      {"Scores", WithoutLayer(1e20f, 1e20f, 1),
       [](auto& request) { request.mutable_options()->set_return_intermediates(true); },
       "scores: expected numbers within the range of float32, got a larger one"},
      {"MaskedScores", WithoutLayer(1, -3e38f, 1),
       [](auto& request) {
         *request.mutable_bias() = WireFloats({1}, {-3e38f});
         request.mutable_options()->set_return_intermediates(true);
       },
       "masked_scores: expected numbers within the range of float32, got a larger one"},
      {"LogSumExp", WithoutLayer(1, 3e38f, 1), with_bias(3e38f),
       "log_sum_exp: expected numbers within the range of float32, got a larger one"},
      {"NegativeLogSumExp", WithoutLayer(1, -3e38f, 1), with_bias(-3e38f),
       "log_sum_exp: expected numbers within the range of float32, got a larger one"},
      OnLayer("Query", 1e38f, 1, 1, "query: expected numbers within the range of float32, got a larger one"),
      OnLayer("Key", 1, 1e38f, 1, "key: expected numbers within the range of float32, got a larger one"),
      OnLayer("Value", 1, 1, 1e38f, "value: expected numbers within the range of float32, got a larger one"),
      OnLayer("Output", 1, 1, 1e37f, "output: expected numbers within the range of float32, got a larger one"),
  };
}

class ReplyRangeTest : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    auto running = RunningServer::Start(
        {.checkpoints = {{"tens", LayerOf({10, 10, 10, 10})}, {"infinite", LayerOf({1, 1, 1, kInf})}}});
    ASSERT_THAT(running, IsOk());
    running_ = *std::move(running);
  }

  std::unique_ptr<RunningServer> running_;
};

TEST_P(ReplyRangeTest, NamesTheTensorThatExceedsItsType) {
  v1::AttendRequest request = GetParam().request;
  GetParam().change(request);
  EXPECT_THAT(running_->client().Attend(ClientRequest(request)),
              StatusIs(absl::StatusCode::kOutOfRange, GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(Cases, ReplyRangeTest, ::testing::ValuesIn(Cases()),
                         [](const auto& info) { return std::string(info.param.name); });

using NonFiniteReplyTest = ReplyRangeTest;

TEST_F(NonFiniteReplyTest, IsAnswered) {
  v1::AttendRequest on_layer = Request(1, 1, 1);
  on_layer.set_weight_set("infinite");
  for (const v1::AttendRequest& request : {WithoutLayer(1, 1, kInf), on_layer}) {
    const auto reply = running_->client().Attend(ClientRequest(request));
    ASSERT_THAT(reply, IsOk());
    EXPECT_EQ(reply->output.Floats(), std::vector<float>{kInf});
  }
}

// A hidden key does not change the result, regardless of its size.
TEST_F(NonFiniteReplyTest, IgnoresHiddenKeys) {
  v1::AttendRequest request = Request(1, 1, 1);
  *request.mutable_inputs_k() = WireFloats({2, 1}, {1, 1e38f});
  *request.mutable_inputs_v() = WireFloats({2, 1}, {1, 1e38f});
  *request.mutable_mask()->mutable_dense() = WireBools({2}, {1, 0});
  request.set_weight_set("tens");
  const auto reply = running_->client().Attend(ClientRequest(request));
  ASSERT_THAT(reply, IsOk());
  EXPECT_EQ(reply->output.Floats(), std::vector<float>{100});
}

}  // namespace
}  // namespace attention::test
