// Large messages and the limits of message sizes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/matchers.h"
#include "tests/testing/server/requests.h"
#include "tests/testing/server/running_server.h"
#include "tests/testing/server/wire.h"

namespace attention::test {
namespace {

using absl::StatusCode;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kLength = 2048;
constexpr int64_t kWide = 640;
constexpr int64_t kMiB = int64_t{1} << 20;

// All parameters are 0 except the output bias, so every output is 0.5.
server::LayerParameters HalfLayer(int64_t in_features) {
  server::LayerParameters layer;
  layer.shape = {in_features, in_features, in_features, {1, 1, 4, 4}, kWide};
  layer.query_kernel = layer.key_kernel = layer.value_kernel = std::vector<float>(in_features * 4);
  layer.out_kernel.resize(4 * kWide);
  layer.out_bias.assign(kWide, 0.5f);
  return layer;
}

v1::AttendRequest Zeros(const std::string& weight_set, int64_t features) {
  v1::AttendRequest request;
  request.set_weight_set(weight_set);
  *request.mutable_inputs_q() = WireFloats({1, kLength, features}, std::vector<float>(kLength * features));
  return request;
}

class MessageSizeTest : public ::testing::Test {
 protected:
  void Start(const server::Config& config = {}) {
    auto running = RunningServer::Start({.checkpoints = {{"wide", ToParameters(HalfLayer(kWide))},
                                                         {"narrow", ToParameters(HalfLayer(1))},
                                                         {"ones", ToParameters(OnesLayer())}},
                                         .config = config});
    ASSERT_THAT(running, IsOk());
    running_ = *std::move(running);
  }

  void ExpectQuestionIsAnswered() {
    const auto reply = running_->AttendRaw(QuestionRequest("ones"));
    ASSERT_THAT(reply, IsOk());
    EXPECT_THAT(ClientTensor(reply->output()), Near(QuestionAnswer()));
  }

  std::unique_ptr<RunningServer> running_;
};

// Both messages exceed gRPC's default limit of 4 MiB.
TEST_F(MessageSizeTest, AcceptsFiveMegabytesInBothDirectionsByDefault) {
  ASSERT_NO_FATAL_FAILURE(Start());
  const Expected halves = {{1, kLength, kWide}, std::vector<double>(kLength * kWide, 0.5)};
  for (const auto& [weight_set, features] : {std::pair("wide", kWide), std::pair("narrow", int64_t{1})}) {
    const auto reply = running_->client().Attend(ClientRequest(Zeros(weight_set, features)));
    ASSERT_THAT(reply, IsOk());
    EXPECT_THAT(reply->output, Near(halves));
  }
}

TEST_F(MessageSizeTest, RejectsARequestAboveTheLimitAndServesTheNext) {
  server::Config config;
  config.max_message_bytes = 8 * kMiB;
  ASSERT_NO_FATAL_FAILURE(Start(config));
  v1::AttendRequest request;
  request.set_weight_set("ones");
  request.mutable_inputs_q()->set_data(std::string(8 * kMiB + 1024, '\0'));
  EXPECT_THAT(running_->AttendRaw(request),
              StatusIs(StatusCode::kResourceExhausted,
                       AllOf(HasSubstr(std::to_string(request.ByteSizeLong())), HasSubstr(std::to_string(8 * kMiB)))));
  ExpectQuestionIsAnswered();
}

TEST_F(MessageSizeTest, RejectsAReplyAboveTheLimitAndServesTheNext) {
  server::Config config;
  config.max_message_bytes = kMiB;
  ASSERT_NO_FATAL_FAILURE(Start(config));
  EXPECT_THAT(running_->AttendRaw(Zeros("narrow", 1)),
              StatusIs(StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("--max-message-bytes"), HasSubstr(std::to_string(kMiB)))));
  ExpectQuestionIsAnswered();
}

// A small request whose reply would have terabytes.
TEST_F(MessageSizeTest, RejectsWeightsThatExceedAnyReply) {
  ASSERT_NO_FATAL_FAILURE(Start());
  v1::AttendRequest request;
  request.set_weight_set("narrow");
  *request.mutable_inputs_q() = WireFloats({1, 1000000, 1}, std::vector<float>(1000000));
  request.mutable_options()->set_return_attn_weights(true);
  EXPECT_THAT(running_->AttendRaw(request), StatusIs(StatusCode::kResourceExhausted, HasSubstr("--max-message-bytes")));
  ExpectQuestionIsAnswered();
}

// Small requests whose reply exceeds the limit, for different reasons.
struct LargeReply {
  const char* name;
  void (*set)(v1::AttendOptions& options);
};

const LargeReply kLargeReplies[] = {
    {"Weights", [](v1::AttendOptions& options) { options.set_return_attn_weights(true); }},
    {"MeanWeights", [](v1::AttendOptions& options) { options.set_return_mean_attn_weights(true); }},
    {"TopKeys", [](v1::AttendOptions& options) { options.set_top_k(kLength / 2); }},
    {"Intermediates", [](v1::AttendOptions& options) { options.set_return_intermediates(true); }},
};

class LargeReplyTest : public ::testing::TestWithParam<LargeReply> {};

// 2048 × 2048 elements of 4 bytes are 16 MiB, like 2048 × 1024 elements of 8 bytes.
TEST_P(LargeReplyTest, IsRejectedBeforeComputing) {
  Gate gate;
  server::Config config;
  config.max_message_bytes = 8 * kMiB;
  auto running =
      RunningServer::Start({.checkpoints = {{"ones", ToParameters(OnesLayer())}}, .config = config, .gate = &gate});
  ASSERT_THAT(running, IsOk());
  v1::AttendRequest request;
  request.set_weight_set("ones");
  *request.mutable_inputs_q() = WireFloats({1, kLength, 3}, std::vector<float>(kLength * 3, 1));
  EXPECT_THAT((*running)->AttendRaw(request), IsOk());
  EXPECT_EQ(gate.batches(), 1);
  GetParam().set(*request.mutable_options());
  EXPECT_THAT((*running)->AttendRaw(request),
              StatusIs(StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("--max-message-bytes"), HasSubstr(std::to_string(8 * kMiB)))));
  EXPECT_EQ(gate.batches(), 1);
}

INSTANTIATE_TEST_SUITE_P(Replies, LargeReplyTest, ::testing::ValuesIn(kLargeReplies),
                         [](const auto& info) { return std::string(info.param.name); });

// An output of 32 MiB or a log-sum-exp of 32 MiB is below the limit, but both together exceed it.
TEST_F(MessageSizeTest, CountsTheLogSumExp) {
  server::Config config;
  config.max_message_bytes = 64 * kMiB;
  ASSERT_NO_FATAL_FAILURE(Start(config));
  v1::AttendRequest request;
  request.mutable_heads()->set_num_heads(128);
  request.mutable_heads()->set_axes(v1::HeadLayout::AXES_LENGTH_FEATURES);
  constexpr int64_t kQueries = 65536;
  *request.mutable_inputs_q() =
      WireTensor(v1::DATA_TYPE_BFLOAT16, {kQueries, 128}, std::string(kQueries * 128 * 2, '\0'));
  *request.mutable_inputs_k() = WireTensor(v1::DATA_TYPE_BFLOAT16, {1, 128}, std::string(128 * 2, '\0'));
  v1::AttendOptions& options = *request.mutable_options();
  options.set_output_dtype(v1::DATA_TYPE_FLOAT32);
  EXPECT_THAT(running_->AttendRaw(request), IsOk());
  options.set_return_log_sum_exp(true);
  EXPECT_THAT(running_->AttendRaw(request), StatusIs(StatusCode::kResourceExhausted, HasSubstr("--max-message-bytes")));
}

}  // namespace
}  // namespace attention::test
