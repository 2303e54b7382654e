// Attend over a socket: the formula, types, shapes and metadata of a reply.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/matchers.h"
#include "tests/testing/server/requests.h"
#include "tests/testing/server/running_server.h"
#include "tests/testing/server/wire.h"

namespace attention::test {
namespace {

using ::testing::Each;

class AttendTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto running = RunningServer::Start({.checkpoints = {{"ones", ToParameters(OnesLayer())}}});
    ASSERT_THAT(running, IsOk());
    running_ = *std::move(running);
  }

  absl::StatusOr<AttendReply> Attend(const v1::AttendRequest& request) {
    return running_->client().Attend(ClientRequest(request));
  }

  std::unique_ptr<RunningServer> running_;
};

TEST_F(AttendTest, AnswersThePublicQuestion) {
  const auto reply = Attend(QuestionRequest("ones"));
  ASSERT_THAT(reply, IsOk());
  EXPECT_THAT(reply->output, Near(QuestionAnswer()));
}

TEST_F(AttendTest, AnswersThePublicQuestionWithTheInputsExchanged) {
  v1::AttendRequest request = QuestionRequest("ones");
  request.mutable_inputs_q()->Swap(request.mutable_inputs_k());
  const auto reply = Attend(request);
  ASSERT_THAT(reply, IsOk());
  EXPECT_THAT(reply->output, Near(Expected{{1, 2, 4}, std::vector<double>(8, 3)}));
}

TEST_F(AttendTest, ReturnsEveryIntermediateOfTheFormula) {
  v1::AttendRequest request = QuestionRequest("ones");
  request.mutable_options()->set_return_intermediates(true);
  const auto reply = Attend(request);
  ASSERT_THAT(reply, IsOk());
  ASSERT_TRUE(reply->intermediates.has_value());
  ASSERT_TRUE(reply->attn_weights.has_value());
  const std::vector<double> keys = {4, 4, 4, 4, 3, 3, 3, 3};
  EXPECT_THAT(reply->intermediates->query.value(), Near(Expected{{1, 2, 1, 4}, std::vector<double>(8, 3)}));
  EXPECT_THAT(reply->intermediates->key.value(), Near(Expected{{1, 2, 1, 4}, keys}));
  EXPECT_THAT(reply->intermediates->value.value(), Near(Expected{{1, 2, 1, 4}, keys}));
  EXPECT_THAT(reply->intermediates->scores, Near(Expected{{1, 1, 2, 2}, {24, 18, 24, 18}}));
  const double weight = 0.99752737684;
  EXPECT_THAT(*reply->attn_weights, Near(Expected{{1, 1, 2, 2}, {weight, 1 - weight, weight, 1 - weight}, 1e-6}));
  EXPECT_THAT(reply->intermediates->context, Near(Expected{{1, 2, 1, 4}, std::vector<double>(8, 3.99752738), 1e-6}));
}

TEST_F(AttendTest, OmitsResultsThatWereNotRequested) {
  const auto reply = Attend(QuestionRequest("ones"));
  ASSERT_THAT(reply, IsOk());
  EXPECT_FALSE(reply->attn_weights.has_value());
  EXPECT_FALSE(reply->intermediates.has_value());
}

TEST_F(AttendTest, ReportsTiming) {
  v1::AttendRequest request = QuestionRequest("ones");
  request.set_request_id("r-1");
  const auto reply = Attend(request);
  ASSERT_THAT(reply, IsOk());
  EXPECT_EQ(reply->request_id, "r-1");
  EXPECT_EQ(reply->weight_set, "ones");
  EXPECT_EQ(reply->version, 1);
  EXPECT_EQ(reply->timing.batch_requests, 1);
  EXPECT_EQ(reply->timing.batch_tokens, 4);
  EXPECT_EQ(reply->timing.batch_close_reason, "QUEUE_DRAINED");
  EXPECT_GT(reply->timing.compute_time.count(), 0);
  EXPECT_GE(reply->timing.queue_time.count(), 0);
}

// The first sequence needs 4 queries and 3 keys, the second none; with self-attention they need 3 tokens and 1 token.
TEST_F(AttendTest, CountsOnlyTokensThatAreNeeded) {
  v1::AttendRequest request;
  request.set_weight_set("ones");
  *request.mutable_inputs_q() = WireFloats({2, 4, 3}, std::vector<float>(24, 1));
  *request.mutable_inputs_k() = WireFloats({2, 6, 3}, std::vector<float>(36, 1));
  EXPECT_EQ(Attend(request)->timing.batch_tokens, 20);
  v1::Mask& mask = *request.mutable_mask();
  for (int64_t length : {3, 6}) mask.add_kv_lengths(length);
  for (int64_t length : {4, 0}) mask.add_q_lengths(length);
  EXPECT_EQ(Attend(request)->timing.batch_tokens, 7);
  request.clear_inputs_k();
  mask.Clear();
  EXPECT_EQ(Attend(request)->timing.batch_tokens, 8);
  for (int64_t length : {3, 1}) {
    mask.add_kv_lengths(length);
    mask.add_q_lengths(length);
  }
  EXPECT_EQ(Attend(request)->timing.batch_tokens, 4);
}

TEST_F(AttendTest, AcceptsAnyNumberOfBatchAxes) {
  const std::vector<float> numbers(2 * 3 * 2 * 3, 2);
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{12, 3}, {6, 2, 3}, {2, 3, 2, 3}, {1, 2, 3, 1, 2, 3}}) {
    v1::AttendRequest request;
    request.set_weight_set("ones");
    *request.mutable_inputs_q() = WireFloats(shape, numbers);
    const auto reply = Attend(request);
    ASSERT_THAT(reply, IsOk());
    std::vector<int64_t> expected = shape;
    expected.back() = 4;
    EXPECT_EQ(reply->output.shape, expected);
    EXPECT_THAT(Values(reply->output), Each(6.0));
  }
}

// An absent inputs_k defaults to inputs_q, and an absent inputs_v to inputs_k.
TEST_F(AttendTest, UsesTheDefaultsOfAbsentInputs) {
  v1::AttendRequest request;
  request.set_weight_set("ones");
  *request.mutable_inputs_q() = WireFloats({1, 3}, {1, 1, 1});
  EXPECT_THAT(Attend(request)->output, Near(Expected{{1, 4}, {3, 3, 3, 3}}));
  *request.mutable_inputs_k() = WireFloats({1, 3}, {2, 2, 2});
  EXPECT_THAT(Attend(request)->output, Near(Expected{{1, 4}, {6, 6, 6, 6}}));
  *request.mutable_inputs_v() = WireFloats({1, 3}, {3, 3, 3});
  EXPECT_THAT(Attend(request)->output, Near(Expected{{1, 4}, {9, 9, 9, 9}}));
}

struct TypeCase {
  v1::DataType input;
  v1::DataType output;  // UNSPECIFIED: absent
  DataType expected;
};

class AttendTypesTest : public AttendTest, public ::testing::WithParamInterface<TypeCase> {};

v1::Tensor Convert(const v1::Tensor& floats, v1::DataType dtype) {
  const std::vector<double> values = Values(ClientTensor(floats));
  const std::vector<float> numbers(values.begin(), values.end());
  std::string data(numbers.size() * server::DTypeSize(static_cast<server::DType>(dtype)), '\0');
  server::FromFloat32(numbers.data(), static_cast<int64_t>(numbers.size()), static_cast<server::DType>(dtype),
                      reinterpret_cast<std::byte*>(data.data()));
  return WireTensor(dtype, {floats.shape().begin(), floats.shape().end()}, data);
}

TEST_P(AttendTypesTest, ConvertsInputsAndOutput) {
  v1::AttendRequest request = QuestionRequest("ones");
  *request.mutable_inputs_q() = Convert(request.inputs_q(), GetParam().input);
  *request.mutable_inputs_k() = Convert(request.inputs_k(), GetParam().input);
  request.mutable_options()->set_output_dtype(GetParam().output);
  const auto reply = Attend(request);
  ASSERT_THAT(reply, IsOk());
  EXPECT_EQ(reply->output.dtype, GetParam().expected);
  // The inputs are exact in every type. The computation uses float32, and the output is rounded to its type.
  Expected expected = QuestionAnswer();
  if (GetParam().expected == DataType::kBFloat16) expected.values.assign(8, 4.0);
  if (GetParam().expected == DataType::kFloat16) expected.values.assign(8, 3.998046875);
  EXPECT_THAT(reply->output, Near(expected));
}

INSTANTIATE_TEST_SUITE_P(
    Types, AttendTypesTest,
    ::testing::Values(TypeCase{v1::DATA_TYPE_FLOAT32, v1::DATA_TYPE_UNSPECIFIED, DataType::kFloat32},
                      TypeCase{v1::DATA_TYPE_BFLOAT16, v1::DATA_TYPE_UNSPECIFIED, DataType::kBFloat16},
                      TypeCase{v1::DATA_TYPE_FLOAT16, v1::DATA_TYPE_UNSPECIFIED, DataType::kFloat16},
                      TypeCase{v1::DATA_TYPE_FLOAT64, v1::DATA_TYPE_UNSPECIFIED, DataType::kFloat64},
                      TypeCase{v1::DATA_TYPE_BFLOAT16, v1::DATA_TYPE_FLOAT32, DataType::kFloat32},
                      TypeCase{v1::DATA_TYPE_FLOAT64, v1::DATA_TYPE_FLOAT32, DataType::kFloat32},
                      TypeCase{v1::DATA_TYPE_FLOAT32, v1::DATA_TYPE_FLOAT16, DataType::kFloat16},
                      TypeCase{v1::DATA_TYPE_FLOAT32, v1::DATA_TYPE_FLOAT64, DataType::kFloat64}),
    [](const auto& info) {
      return "From" + std::to_string(info.param.input) + "To" + std::to_string(info.param.output);
    });

}  // namespace
}  // namespace attention::test
