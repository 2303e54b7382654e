#include "server/rpc/reply_plan.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/testing/matchers.h"

namespace attention::server {
namespace {

using ::attention::test::IsOk;
using ::attention::test::StatusIs;

constexpr int64_t kNoLimit = 2147483647;
constexpr int64_t kHuge = int64_t{1} << 62;
constexpr HeadShape kHeads = {.num_heads = 2, .num_kv_heads = 1, .head_dim = 4, .value_head_dim = 3};

const Shape kBatch = {2, 3};
const Shape kOutput = {7, 5};

ReplySizes Sizes() {
  return {.batch = kBatch, .q_length = 7, .kv_length = 11, .heads = kHeads, .projected = true, .output = kOutput};
}

v1::AttendOptions Everything() {
  v1::AttendOptions options;
  options.set_return_intermediates(true);
  options.set_return_mean_attn_weights(true);
  options.set_return_log_sum_exp(true);
  options.set_top_k(5);
  options.set_softcap(30);
  return options;
}

std::vector<ReplyField> Fields(const ReplyPlan& plan) {
  std::vector<ReplyField> fields;
  for (const ReplyTensor& tensor : plan.tensors) fields.push_back(tensor.field);
  return fields;
}

TEST(ReplyPlanTest, PlansTheOutputAlone) {
  ReplySizes sizes = Sizes();
  sizes.output_dtype = DType::kFloat16;
  const auto plan = PlanReply(sizes, {}, kNoLimit);
  ASSERT_THAT(plan, IsOk());
  ASSERT_EQ(plan->tensors.size(), 1u);
  EXPECT_EQ(plan->tensors[0].field, ReplyField::kOutput);
  EXPECT_EQ(plan->tensors[0].shape, Shape({2, 3, 7, 5}));
  EXPECT_EQ(plan->tensors[0].dtype, DType::kFloat16);
  EXPECT_EQ(plan->bytes, 2 * 3 * 7 * 5 * 2);
}

struct OptionCase {
  std::string name;
  std::function<void(v1::AttendOptions&)> set;
  std::vector<ReplyField> fields;  // besides the output
  int64_t bytes;                   // for each row of the batch, besides the output
};

void PrintTo(const OptionCase& option, std::ostream* out) { *out << option.name; }

class ReplyOptionTest : public ::testing::TestWithParam<OptionCase> {};

TEST_P(ReplyOptionTest, PlansTheRequestedTensors) {
  v1::AttendOptions options;
  GetParam().set(options);
  const auto plan = PlanReply(Sizes(), options, kNoLimit);
  ASSERT_THAT(plan, IsOk());
  std::vector<ReplyField> expected = GetParam().fields;
  expected.push_back(ReplyField::kOutput);
  EXPECT_THAT(Fields(*plan), ::testing::UnorderedElementsAreArray(expected));
  EXPECT_EQ(plan->bytes, 6 * (4 * 7 * 5 + GetParam().bytes));
}

constexpr int64_t kScoresBytes = 4 * 2 * 7 * 11;
constexpr int64_t kProjectedBytes = 4 * (7 * 2 * 4 + 11 * 4 + 11 * 3);
constexpr int64_t kContextBytes = 4 * 7 * 2 * 3;

INSTANTIATE_TEST_SUITE_P(
    Options, ReplyOptionTest,
    ::testing::Values(
        OptionCase{
            "Weights", [](auto& o) { o.set_return_attn_weights(true); }, {ReplyField::kAttnWeights}, kScoresBytes},
        OptionCase{"MeanWeights",
                   [](auto& o) { o.set_return_mean_attn_weights(true); },
                   {ReplyField::kMeanAttnWeights},
                   4 * 7 * 11},
        OptionCase{"TopK",
                   [](auto& o) { o.set_top_k(5); },
                   {ReplyField::kTopKeys, ReplyField::kTopWeights},
                   2 * 4 * 2 * 7 * 5},
        OptionCase{"LogSumExp", [](auto& o) { o.set_return_log_sum_exp(true); }, {ReplyField::kLogSumExp}, 4 * 2 * 7},
        OptionCase{"SoftcapAlone", [](auto& o) { o.set_softcap(30); }, {}, 0},
        OptionCase{"Intermediates",
                   [](auto& o) { o.set_return_intermediates(true); },
                   {ReplyField::kAttnWeights, ReplyField::kQuery, ReplyField::kKey, ReplyField::kValue,
                    ReplyField::kScores, ReplyField::kMaskedScores, ReplyField::kContext},
                   3 * kScoresBytes + kProjectedBytes + kContextBytes},
        OptionCase{"IntermediatesWithSoftcap",
                   [](auto& o) {
                     o.set_return_intermediates(true);
                     o.set_softcap(30);
                   },
                   {ReplyField::kAttnWeights, ReplyField::kQuery, ReplyField::kKey, ReplyField::kValue,
                    ReplyField::kScores, ReplyField::kCappedScores, ReplyField::kMaskedScores, ReplyField::kContext},
                   4 * kScoresBytes + kProjectedBytes + kContextBytes}),
    [](const auto& info) { return info.param.name; });

TEST(ReplyPlanTest, OmitsProjectionsWithoutALayer) {
  ReplySizes sizes = Sizes();
  sizes.projected = false;
  v1::AttendOptions options;
  options.set_return_intermediates(true);
  const auto plan = PlanReply(sizes, options, kNoLimit);
  ASSERT_THAT(plan, IsOk());
  EXPECT_THAT(Fields(*plan),
              ::testing::UnorderedElementsAre(ReplyField::kOutput, ReplyField::kAttnWeights, ReplyField::kScores,
                                              ReplyField::kMaskedScores, ReplyField::kContext));
}

TEST(ReplyPlanTest, AllocatesThePlannedTensorsAndSetsThePointers) {
  ReplySizes sizes = Sizes();
  sizes.output_dtype = DType::kFloat64;
  const auto plan = PlanReply(sizes, Everything(), kNoLimit);
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->tensors.size(), 13u);
  v1::AttendResponse response;
  AttentionCall call;
  AllocateReply(*plan, &response, &call);

  const auto expect = [](const v1::Tensor& tensor, const void* at, const Shape& shape, v1::DataType dtype) {
    EXPECT_EQ(Shape(tensor.shape().begin(), tensor.shape().end()), shape);
    EXPECT_EQ(tensor.dtype(), dtype);
    EXPECT_EQ(static_cast<const void*>(tensor.data().data()), at);
    EXPECT_EQ(tensor.data(), std::string(*ByteCount(shape, static_cast<DType>(dtype)), '\0'));
  };
  constexpr auto kFloats = v1::DATA_TYPE_FLOAT32;
  const v1::Intermediates& lines = response.intermediates();
  const ExtraOutputs& extra = call.extra_outputs;
  expect(response.output(), call.output.data, {2, 3, 7, 5}, v1::DATA_TYPE_FLOAT64);
  expect(response.attn_weights(), extra.attn_weights, {2, 3, 2, 7, 11}, kFloats);
  expect(response.mean_attn_weights(), extra.mean_attn_weights, {2, 3, 7, 11}, kFloats);
  expect(response.top_keys().keys(), extra.top_keys, {2, 3, 2, 7, 5}, v1::DATA_TYPE_INT32);
  expect(response.top_keys().weights(), extra.top_weights, {2, 3, 2, 7, 5}, kFloats);
  expect(response.log_sum_exp(), extra.log_sum_exp, {2, 3, 2, 7}, kFloats);
  expect(lines.query(), extra.query, {2, 3, 7, 2, 4}, kFloats);
  expect(lines.key(), extra.key, {2, 3, 11, 1, 4}, kFloats);
  expect(lines.value(), extra.value, {2, 3, 11, 1, 3}, kFloats);
  expect(lines.scores(), extra.scores, {2, 3, 2, 7, 11}, kFloats);
  expect(lines.capped_scores(), extra.capped_scores, {2, 3, 2, 7, 11}, kFloats);
  expect(lines.masked_scores(), extra.masked_scores, {2, 3, 2, 7, 11}, kFloats);
  expect(lines.context(), extra.context, {2, 3, 7, 2, 3}, kFloats);
}

TEST(ReplyPlanTest, OmitsTensorsThatWereNotRequested) {
  v1::AttendResponse response;
  AttentionCall call;
  AllocateReply(*PlanReply(Sizes(), {}, kNoLimit), &response, &call);
  EXPECT_FALSE(response.has_attn_weights());
  EXPECT_FALSE(response.has_intermediates());
  EXPECT_FALSE(response.has_top_keys());
  EXPECT_EQ(call.extra_outputs.attn_weights, nullptr);
  EXPECT_EQ(call.extra_outputs.query, nullptr);
  EXPECT_EQ(call.extra_outputs.top_keys, nullptr);
}

// The limit applies to the whole message: 840 bytes of output and 2048 for everything else.
TEST(ReplyPlanTest, RejectsAReplyAboveTheLimit) {
  EXPECT_THAT(PlanReply(Sizes(), {}, 2888), IsOk());
  EXPECT_THAT(PlanReply(Sizes(), {}, 2887),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       "reply: expected at most 2887 bytes (--max-message-bytes), got 2888"));
}

// With the sizes whose varints are longest.
TEST(ReplyPlanTest, ReservesEnoughForEverythingButTheElements) {
  const Shape batch = {kHuge, kHuge, kHuge, kHuge, kHuge, kHuge};
  const Shape output = {0, kHuge, kHuge};
  const ReplySizes sizes = {.batch = batch,
                            .q_length = 0,
                            .kv_length = 0,
                            .heads = {kHuge, kHuge, kHuge, kHuge},
                            .projected = true,
                            .output = output};
  const auto plan = PlanReply(sizes, Everything(), kNoLimit);
  ASSERT_THAT(plan, IsOk());
  v1::AttendStreamResponse reply;
  v1::AttendResponse& response = *reply.mutable_response();
  AttentionCall call;
  AllocateReply(*plan, &response, &call);
  for (std::string* name : {response.mutable_weight_set(), response.mutable_request_id(), reply.mutable_request_id()}) {
    *name = std::string(128, 'n');
  }
  response.set_version(kHuge);
  response.set_empty_rows(kHuge);
  v1::Timing& timing = *response.mutable_timing();
  timing.set_queue_time_ns(kHuge);
  timing.set_compute_time_ns(kHuge);
  timing.set_batch_requests(2147483647);
  timing.set_batch_tokens(kHuge);
  timing.set_batch_close_reason(v1::BATCH_CLOSE_REASON_MAX_TOKENS);
  // Some sizes and lengths must be 0 here but could be large: about forty numbers of at most 9 bytes.
  EXPECT_LE(reply.ByteSizeLong(), 2048u - 360u);
}

// A public bug report: two inputs of 240 kB whose weights take 14.4 GB.
TEST(ReplyPlanTest, RejectsWeightsOfManyGigabytes) {
  const Shape output = {60000, 5};
  const ReplySizes sizes = {.batch = {},
                            .q_length = 60000,
                            .kv_length = 60000,
                            .heads = {.num_heads = 1, .num_kv_heads = 1, .head_dim = 4, .value_head_dim = 4},
                            .projected = true,
                            .output = output};
  v1::AttendOptions options;
  options.set_return_attn_weights(true);
  EXPECT_THAT(PlanReply(sizes, options, 268435456),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       "reply: expected at most 268435456 bytes (--max-message-bytes), got 14401202048"));
}

TEST(ReplyPlanTest, RejectsASizeThatOverflows) {
  const auto rejected = StatusIs(absl::StatusCode::kResourceExhausted,
                                 "reply: expected at most 2147483647 bytes (--max-message-bytes), got more than 2^63");
  ReplySizes sizes = Sizes();
  const Shape output = {kHuge, 5};
  sizes.output = output;
  EXPECT_THAT(PlanReply(sizes, {}, kNoLimit), rejected);
  sizes.output = kOutput;
  sizes.kv_length = kHuge;
  EXPECT_THAT(PlanReply(sizes, Everything(), kNoLimit), rejected);
}

// [2^62, 2, 0, 11] has no bytes, although the product of its first two sizes exceeds int64.
TEST(ReplyPlanTest, CountsNoBytesForAnEmptyTensor) {
  const Shape batch = {kHuge};
  const Shape output = {0, 5};
  ReplySizes sizes = Sizes();
  sizes.batch = batch;
  sizes.q_length = 0;
  sizes.output = output;
  v1::AttendOptions options;
  options.set_return_attn_weights(true);
  const auto plan = PlanReply(sizes, options, kNoLimit);
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->bytes, 0);
}

}  // namespace
}  // namespace attention::server
