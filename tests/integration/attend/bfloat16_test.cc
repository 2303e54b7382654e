// compute_dtype BFLOAT16: the operands of products are rounded, nothing else is.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/matchers.h"
#include "tests/testing/server/requests.h"
#include "tests/testing/server/running_server.h"
#include "tests/testing/server/together.h"
#include "tests/testing/server/wire.h"

namespace attention::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class BFloat16Test : public ::testing::Test {
 protected:
  void Start(const server::Config& config = {}) {
    auto running = RunningServer::Start(
        {.checkpoints = {{"ones", ToParameters(OnesLayer())}, {"one", ToParameters(IdentityLayer(1))}},
         .config = config});
    ASSERT_THAT(running, IsOk());
    running_ = *std::move(running);
  }

  absl::StatusOr<AttendReply> Attend(const v1::AttendRequest& request) {
    return running_->client().Attend(ClientRequest(request));
  }

  std::unique_ptr<RunningServer> running_;
};

v1::AttendRequest InBFloat16(v1::AttendRequest request) {
  request.mutable_options()->set_compute_dtype(v1::DATA_TYPE_BFLOAT16);
  return request;
}

// The number printed in the public question, computed on a TPU: the weights 0.99752738 and 0.00247262 are rounded to
// 0.99609375 and 0.0024719238 before they are multiplied by the values 4 and 3: 3.984375 + 0.0074157714.
TEST_F(BFloat16Test, GivesThePrintedNumberOfThePublicQuestionAsContext) {
  ASSERT_NO_FATAL_FAILURE(Start());
  v1::AttendRequest request = InBFloat16(QuestionRequest("ones"));
  request.mutable_options()->set_return_intermediates(true);
  const auto reply = Attend(request);
  ASSERT_THAT(reply, IsOk());
  EXPECT_THAT(reply->intermediates->context, Near(Expected{{1, 2, 1, 4}, std::vector<double>(8, 3.9917908), 1e-7}));
  // The softmax is computed in float32.
  const double weight = 0.99752737684;
  EXPECT_THAT(*reply->attn_weights, Near(Expected{{1, 1, 2, 2}, {weight, 1 - weight, weight, 1 - weight}, 1e-6}));
  // The context, rounded to 255/64, is multiplied by the identity.
  EXPECT_THAT(reply->output, Near(Expected{{1, 2, 4}, std::vector<double>(8, 3.984375)}));
}

// Sums are float32: 1.0078125 · 1.0078125 and 256 + 1 need more digits than bfloat16 has.
TEST_F(BFloat16Test, RoundsNoSum) {
  ASSERT_NO_FATAL_FAILURE(Start());
  v1::AttendRequest request;
  request.mutable_heads()->set_num_heads(1);
  request.mutable_heads()->set_axes(v1::HeadLayout::AXES_LENGTH_HEADS);
  *request.mutable_inputs_q() = WireFloats({1, 1, 2}, {1.0078125, 1});
  *request.mutable_inputs_k() = WireFloats({1, 1, 2}, {1.0078125, 256});
  *request.mutable_inputs_v() = WireFloats({1, 1, 1}, {1.0009765625});
  request.mutable_options()->set_scale(1);
  request.mutable_options()->set_return_intermediates(true);
  const auto reply = Attend(InBFloat16(request));
  ASSERT_THAT(reply, IsOk());
  EXPECT_THAT(reply->intermediates->scores, Near(Expected{{1, 1, 1}, {257.01568603515625}}));
  // 1.0009765625 is rounded to 1 for the product.
  EXPECT_THAT(reply->output, Near(Expected{{1, 1, 1}, {1}}));
}

// The biases of the layer and of the scores are not rounded.
TEST_F(BFloat16Test, RoundsNoBias) {
  ASSERT_NO_FATAL_FAILURE(Start());
  server::LayerParameters layer = IdentityLayer(1);
  layer.out_bias = {1.0009765625};
  ASSERT_THAT(running_->Load("one", ToParameters(layer)), IsOk());
  v1::AttendRequest request;
  request.set_weight_set("one");
  *request.mutable_inputs_q() = WireFloats({1, 1}, {1});
  *request.mutable_bias() = WireFloats({1}, {1.0009765625});
  request.mutable_options()->set_return_intermediates(true);
  const auto reply = Attend(InBFloat16(request));
  ASSERT_THAT(reply, IsOk());
  EXPECT_THAT(reply->intermediates->masked_scores, Near(Expected{{1, 1, 1}, {2.0009765625}}));
  EXPECT_THAT(reply->output, Near(Expected{{1, 1}, {2.0009765625}}));
}

// A batch with requests of both types: each is computed in its own type.
TEST_F(BFloat16Test, SharesABatchWithFloat32) {
  ASSERT_NO_FATAL_FAILURE(Start(SharingConfig(4)));
  const v1::AttendRequest question = QuestionRequest("ones");
  const auto replies =
      AttendTogether(running_->client(), {question, InBFloat16(question), InBFloat16(question), question});
  for (size_t i = 0; i < replies.size(); ++i) {
    ASSERT_THAT(replies[i], IsOk());
    EXPECT_EQ(replies[i]->timing.batch_requests, 4);
    const bool rounded = i == 1 || i == 2;
    EXPECT_THAT(replies[i]->output,
                Near(rounded ? Expected{{1, 2, 4}, std::vector<double>(8, 3.984375)} : QuestionAnswer()));
  }
}

TEST_F(BFloat16Test, IsTheOnlyOtherTypeThanFloat32) {
  ASSERT_NO_FATAL_FAILURE(Start());
  v1::AttendRequest request = QuestionRequest("ones");
  request.mutable_options()->set_compute_dtype(v1::DATA_TYPE_FLOAT32);
  EXPECT_THAT(Attend(request)->output, Near(QuestionAnswer()));
  for (const auto dtype : {v1::DATA_TYPE_FLOAT16, v1::DATA_TYPE_FLOAT64, v1::DATA_TYPE_INT8}) {
    request.mutable_options()->set_compute_dtype(dtype);
    EXPECT_THAT(running_->AttendRaw(request),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("options.compute_dtype"), HasSubstr("float32"), HasSubstr("bfloat16"))));
  }
}

}  // namespace
}  // namespace attention::test
