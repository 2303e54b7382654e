#include "server/rpc/reply_plan.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/testing/matchers.h"

namespace attention::server {
namespace {

using ::attention::test::IsOk;
using ::attention::test::StatusIs;

constexpr int64_t kNoLimit = 2147483647;
constexpr LayerShape kLayer = {
    .in_features = 3, .in_k_features = 3, .in_v_features = 3, .num_heads = 2, .head_dim = 4, .out_features = 5};

const Shape kBatch = {2, 3};

ReplySizes Sizes() { return {.batch = kBatch, .q_length = 7, .kv_length = 11, .layer = kLayer}; }

TEST(ReplyPlanTest, PlansTheOutputAlone) {
  ReplySizes sizes = Sizes();
  sizes.output_dtype = DType::kFloat16;
  const auto plan = PlanReply(sizes, kNoLimit);
  ASSERT_THAT(plan, IsOk());
  ASSERT_EQ(plan->tensors.size(), 1u);
  EXPECT_EQ(plan->tensors[0].field, ReplyField::kOutput);
  EXPECT_EQ(plan->tensors[0].shape, Shape({2, 3, 7, 5}));
  EXPECT_EQ(plan->tensors[0].dtype, DType::kFloat16);
  EXPECT_EQ(plan->bytes, 2 * 3 * 7 * 5 * 2);
}

TEST(ReplyPlanTest, ReturnsWeightsWithTheIntermediates) {
  ReplySizes sizes = Sizes();
  sizes.intermediates = true;
  const auto plan = PlanReply(sizes, kNoLimit);
  ASSERT_THAT(plan, IsOk());
  std::vector<ReplyField> fields;
  for (const ReplyTensor& tensor : plan->tensors) fields.push_back(tensor.field);
  EXPECT_THAT(fields, ::testing::UnorderedElementsAre(ReplyField::kOutput, ReplyField::kQuery, ReplyField::kKey,
                                                      ReplyField::kValue, ReplyField::kScores, ReplyField::kAttnWeights,
                                                      ReplyField::kContext));
  const int64_t tokens = 7 * 5 + (7 + 11 + 11 + 7) * 8;
  EXPECT_EQ(plan->bytes, 6 * 4 * (tokens + 2 * (2 * 7 * 11)));
}

TEST(ReplyPlanTest, AllocatesWhatItPlannedAndPointsThere) {
  ReplySizes sizes = Sizes();
  sizes.output_dtype = DType::kFloat64;
  sizes.intermediates = true;
  const auto plan = PlanReply(sizes, kNoLimit);
  ASSERT_THAT(plan, IsOk());
  v1::AttendResponse response;
  AttentionCall call;
  AllocateReply(*plan, &response, &call);

  const auto expect = [](const v1::Tensor& tensor, const void* at, const Shape& shape, v1::DataType dtype) {
    EXPECT_EQ(Shape(tensor.shape().begin(), tensor.shape().end()), shape);
    EXPECT_EQ(tensor.dtype(), dtype);
    EXPECT_EQ(static_cast<const void*>(tensor.data().data()), at);
    EXPECT_EQ(static_cast<int64_t>(tensor.data().size()),
              ByteCount(shape, dtype == v1::DATA_TYPE_FLOAT64 ? DType::kFloat64 : DType::kFloat32));
  };
  const v1::Intermediates& lines = response.intermediates();
  expect(response.output(), call.output, {2, 3, 7, 5}, v1::DATA_TYPE_FLOAT64);
  expect(response.attn_weights(), call.also.attn_weights, {2, 3, 2, 7, 11}, v1::DATA_TYPE_FLOAT32);
  expect(lines.query(), call.also.query, {2, 3, 7, 2, 4}, v1::DATA_TYPE_FLOAT32);
  expect(lines.key(), call.also.key, {2, 3, 11, 2, 4}, v1::DATA_TYPE_FLOAT32);
  expect(lines.value(), call.also.value, {2, 3, 11, 2, 4}, v1::DATA_TYPE_FLOAT32);
  expect(lines.scores(), call.also.scores, {2, 3, 2, 7, 11}, v1::DATA_TYPE_FLOAT32);
  expect(lines.context(), call.also.context, {2, 3, 7, 2, 4}, v1::DATA_TYPE_FLOAT32);
}

TEST(ReplyPlanTest, LeavesOutWhatNobodyAskedFor) {
  v1::AttendResponse response;
  AttentionCall call;
  AllocateReply(*PlanReply(Sizes(), kNoLimit), &response, &call);
  EXPECT_FALSE(response.has_attn_weights());
  EXPECT_FALSE(response.has_intermediates());
  EXPECT_EQ(call.also.attn_weights, nullptr);
  EXPECT_EQ(call.also.query, nullptr);
}

// The limit is that of the whole message: 840 bytes of output and 2048 for all else.
TEST(ReplyPlanTest, RefusesAReplyAboveTheLimit) {
  EXPECT_THAT(PlanReply(Sizes(), 2888), IsOk());
  EXPECT_THAT(PlanReply(Sizes(), 2887),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       "reply: would take 2888 bytes, more than the server's limit of 2887 (--max-message-bytes)"));
}

// From a public bug report: two inputs of 240 kB whose weights take 14.4 GB.
TEST(ReplyPlanTest, RefusesWeightsOfManyGigabytes) {
  ReplySizes sizes = {.batch = {}, .q_length = 60000, .kv_length = 60000, .layer = kLayer, .attn_weights = true};
  sizes.layer.num_heads = 1;
  EXPECT_THAT(PlanReply(sizes, 268435456),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       "reply: would take 14401202048 bytes, more than the server's limit of 268435456 "
                       "(--max-message-bytes)"));
}

TEST(ReplyPlanTest, RefusesASizeThatOverflows) {
  ReplySizes sizes = Sizes();
  sizes.q_length = int64_t{1} << 60;
  EXPECT_THAT(PlanReply(sizes, kNoLimit),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       "reply: would take more than 2^63 bytes, more than the server's limit of 2147483647 "
                       "(--max-message-bytes)"));
}

// [2^62, 2, 0, 11] has no bytes, though its first two sizes have a product beyond int64.
TEST(ReplyPlanTest, CountsAnEmptyTensorAsNothing) {
  const Shape batch = {int64_t{1} << 62};
  ReplySizes sizes = Sizes();
  sizes.batch = batch;
  sizes.q_length = 0;
  sizes.attn_weights = true;
  const auto plan = PlanReply(sizes, kNoLimit);
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->bytes, 0);
}

}  // namespace
}  // namespace attention::server
