#include <gmock/gmock.h>

#include "client/conversion.h"
#include "tests/testing/matchers.h"

namespace attention {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""ns;
using test::IsOk;
using test::StatusIs;
using ::testing::ElementsAre;

v1::Tensor FloatTensor(const std::vector<float>& values) {
  v1::Tensor tensor;
  tensor.set_dtype(v1::DATA_TYPE_FLOAT32);
  tensor.add_shape(static_cast<int64_t>(values.size()));
  tensor.set_data(values.data(), values.size() * sizeof(float));
  return tensor;
}

v1::Tensor IntTensor(int32_t value) {
  v1::Tensor tensor;
  tensor.set_dtype(v1::DATA_TYPE_INT32);
  tensor.add_shape(1);
  tensor.set_data(&value, sizeof(value));
  return tensor;
}

v1::AttendResponse ResponseOf(const v1::Tensor& output) {
  v1::AttendResponse response;
  *response.mutable_output() = output;
  return response;
}

TEST(ClientConversionTest, RequestKeepsEveryField) {
  const int64_t shape[] = {1, 2};
  const float q[] = {1, 2};
  const float k[] = {3, 4};
  const float v[] = {5, 6};
  const uint8_t visible[] = {0, 1};
  const v1::AttendRequest proto = ToProto({.weight_set = "ocr/layer0",
                                           .version = 3,
                                           .inputs_q = Float32(q, shape),
                                           .inputs_k = Float32(k, shape),
                                           .inputs_v = Float32(v, shape),
                                           .mask = {.dense = Bool(visible, shape)},
                                           .return_attn_weights = true,
                                           .return_intermediates = true,
                                           .output_dtype = DataType::kBFloat16,
                                           .request_id = "id",
                                           .priority = -5});
  EXPECT_EQ(proto.weight_set(), "ocr/layer0");
  EXPECT_EQ(proto.version(), 3);
  EXPECT_EQ(proto.inputs_q().dtype(), v1::DATA_TYPE_FLOAT32);
  EXPECT_THAT(proto.inputs_q().shape(), ElementsAre(1, 2));
  EXPECT_EQ(proto.inputs_q().data(), std::string(reinterpret_cast<const char*>(q), sizeof(q)));
  EXPECT_EQ(proto.inputs_k().data(), std::string(reinterpret_cast<const char*>(k), sizeof(k)));
  EXPECT_EQ(proto.inputs_v().data(), std::string(reinterpret_cast<const char*>(v), sizeof(v)));
  EXPECT_EQ(proto.mask().dense().dtype(), v1::DATA_TYPE_BOOL);
  EXPECT_EQ(proto.mask().dense().data(), std::string("\0\1", 2));
  EXPECT_TRUE(proto.options().return_attn_weights());
  EXPECT_TRUE(proto.options().return_intermediates());
  EXPECT_EQ(proto.options().output_dtype(), v1::DATA_TYPE_BFLOAT16);
  EXPECT_EQ(proto.request_id(), "id");
  EXPECT_EQ(proto.priority(), -5);
}

TEST(ClientConversionTest, RequestKeepsEveryOption) {
  const int64_t shape[] = {2};
  const float bias[] = {7, 8};
  const v1::AttendRequest proto =
      ToProto({.bias = Float32(bias, shape),
               .heads = HeadLayout{.num_heads = 4, .num_kv_heads = 2, .axes = HeadAxes::kHeadsLength},
               .scale = 0.0f,
               .softcap = 30.0f,
               .empty_rows = EmptyRows::kError,
               .return_mean_attn_weights = true,
               .return_log_sum_exp = true,
               .top_k = 5,
               .compute_dtype = DataType::kBFloat16});
  EXPECT_EQ(proto.bias().data(), std::string(reinterpret_cast<const char*>(bias), sizeof(bias)));
  EXPECT_EQ(proto.heads().num_heads(), 4);
  EXPECT_EQ(proto.heads().num_kv_heads(), 2);
  EXPECT_EQ(proto.heads().axes(), v1::HeadLayout::AXES_HEADS_LENGTH);
  EXPECT_TRUE(proto.options().has_scale());
  EXPECT_EQ(proto.options().scale(), 0);
  EXPECT_EQ(proto.options().softcap(), 30);
  EXPECT_EQ(proto.options().empty_rows(), v1::EMPTY_ROWS_ERROR);
  EXPECT_TRUE(proto.options().return_mean_attn_weights());
  EXPECT_TRUE(proto.options().return_log_sum_exp());
  EXPECT_EQ(proto.options().top_k(), 5);
  EXPECT_EQ(proto.options().compute_dtype(), v1::DATA_TYPE_BFLOAT16);
}

TEST(ClientConversionTest, MaskKeepsEveryPart) {
  const int64_t shape[] = {2};
  const int32_t q_ids[] = {1, 2};
  const int64_t kv_ids[] = {3, 4};
  const int64_t kv_lengths[] = {0, 300};
  const int64_t q_lengths[] = {5};
  const v1::Mask mask = ToProto({.mask = {.causal = -7,
                                          .window = SlidingWindow{.diagonal = Corner::kBottomRight, .left = 0},
                                          .kv_lengths = kv_lengths,
                                          .q_lengths = q_lengths,
                                          .q_segment_ids = Int32(q_ids, shape),
                                          .kv_segment_ids = Int64(kv_ids, shape)}})
                            .mask();
  EXPECT_FALSE(mask.has_dense());
  EXPECT_EQ(mask.causal().position_case(), v1::Diagonal::kOffset);
  EXPECT_EQ(mask.causal().offset(), -7);
  EXPECT_EQ(mask.window().diagonal().corner(), v1::Diagonal::CORNER_BOTTOM_RIGHT);
  EXPECT_TRUE(mask.window().has_left());
  EXPECT_EQ(mask.window().left(), 0);
  EXPECT_FALSE(mask.window().has_right());
  EXPECT_THAT(mask.kv_lengths(), ElementsAre(0, 300));
  EXPECT_THAT(mask.q_lengths(), ElementsAre(5));
  EXPECT_EQ(mask.q_segment_ids().dtype(), v1::DATA_TYPE_INT32);
  EXPECT_EQ(mask.q_segment_ids().data(), std::string(reinterpret_cast<const char*>(q_ids), sizeof(q_ids)));
  EXPECT_EQ(mask.kv_segment_ids().dtype(), v1::DATA_TYPE_INT64);
  EXPECT_EQ(mask.kv_segment_ids().data(), std::string(reinterpret_cast<const char*>(kv_ids), sizeof(kv_ids)));
}

TEST(ClientConversionTest, AnOffsetOfZeroIsSet) {
  EXPECT_EQ(ToProto({.mask = {.causal = 0}}).mask().causal().position_case(), v1::Diagonal::kOffset);
  EXPECT_EQ(ToProto({.mask = {.causal = Corner::kTopLeft}}).mask().causal().corner(), v1::Diagonal::CORNER_TOP_LEFT);
}

TEST(ClientConversionTest, AMaskOfOneTensorIsAMask) {
  const int64_t shape[] = {1};
  const int32_t id[] = {1};
  EXPECT_TRUE(ToProto({.mask = {.q_segment_ids = Int32(id, shape)}}).mask().has_q_segment_ids());
  EXPECT_TRUE(ToProto({.mask = {.kv_segment_ids = Int32(id, shape)}}).mask().has_kv_segment_ids());
}

TEST(ClientConversionTest, RequestLeavesOutWhatIsNotGiven) {
  const v1::AttendRequest proto = ToProto({.weight_set = "demo", .empty_rows = EmptyRows::kUniform});
  EXPECT_TRUE(proto.has_inputs_q());
  EXPECT_FALSE(proto.has_inputs_k());
  EXPECT_FALSE(proto.has_inputs_v());
  EXPECT_FALSE(proto.has_mask());
  EXPECT_FALSE(proto.has_bias());
  EXPECT_FALSE(proto.has_heads());
  EXPECT_FALSE(proto.has_options());
}

TEST(ClientConversionTest, OptionsLeaveOutWhatIsNotGiven) {
  const v1::AttendOptions options = ToProto({.return_attn_weights = true}).options();
  EXPECT_TRUE(options.return_attn_weights());
  EXPECT_FALSE(options.has_scale());
  EXPECT_FALSE(options.has_softcap());
  EXPECT_EQ(options.compute_dtype(), v1::DATA_TYPE_UNSPECIFIED);
  EXPECT_EQ(options.output_dtype(), v1::DATA_TYPE_UNSPECIFIED);
  EXPECT_EQ(options.empty_rows(), v1::EMPTY_ROWS_UNSPECIFIED);
}

TEST(ClientConversionTest, ReplyKeepsEveryField) {
  v1::AttendResponse response = ResponseOf(FloatTensor({1, 2}));
  response.set_weight_set("demo");
  response.set_version(4);
  response.set_request_id("id");
  response.mutable_timing()->set_queue_time_ns(5);
  response.mutable_timing()->set_compute_time_ns(6);
  response.mutable_timing()->set_batch_requests(7);
  response.mutable_timing()->set_batch_tokens(8);
  response.mutable_timing()->set_batch_close_reason(v1::BATCH_CLOSE_REASON_MAX_TOKENS);
  *response.mutable_attn_weights() = FloatTensor({3});
  *response.mutable_intermediates()->mutable_query() = FloatTensor({4});
  *response.mutable_intermediates()->mutable_key() = FloatTensor({5});
  *response.mutable_intermediates()->mutable_value() = FloatTensor({6});
  *response.mutable_intermediates()->mutable_scores() = FloatTensor({7});
  *response.mutable_intermediates()->mutable_context() = FloatTensor({8});
  *response.mutable_intermediates()->mutable_capped_scores() = FloatTensor({9});
  *response.mutable_intermediates()->mutable_masked_scores() = FloatTensor({10});
  response.set_empty_rows(11);
  *response.mutable_mean_attn_weights() = FloatTensor({12});
  *response.mutable_top_keys()->mutable_keys() = IntTensor(-13);
  *response.mutable_top_keys()->mutable_weights() = FloatTensor({14});
  *response.mutable_log_sum_exp() = FloatTensor({15});

  const absl::StatusOr<AttendReply> reply = FromProto(response);
  ASSERT_THAT(reply, IsOk());
  EXPECT_THAT(reply->output.shape, ElementsAre(2));
  EXPECT_THAT(reply->output.Floats(), ElementsAre(1, 2));
  EXPECT_EQ(reply->weight_set, "demo");
  EXPECT_EQ(reply->version, 4);
  EXPECT_EQ(reply->request_id, "id");
  EXPECT_EQ(reply->timing.queue_time, 5ns);
  EXPECT_EQ(reply->timing.compute_time, 6ns);
  EXPECT_EQ(reply->timing.batch_requests, 7);
  EXPECT_EQ(reply->timing.batch_tokens, 8);
  EXPECT_EQ(reply->timing.batch_close_reason, "MAX_TOKENS");
  EXPECT_THAT(reply->attn_weights->Floats(), ElementsAre(3));
  EXPECT_THAT(reply->intermediates->query->Floats(), ElementsAre(4));
  EXPECT_THAT(reply->intermediates->key->Floats(), ElementsAre(5));
  EXPECT_THAT(reply->intermediates->value->Floats(), ElementsAre(6));
  EXPECT_THAT(reply->intermediates->scores.Floats(), ElementsAre(7));
  EXPECT_THAT(reply->intermediates->context.Floats(), ElementsAre(8));
  EXPECT_THAT(reply->intermediates->capped_scores->Floats(), ElementsAre(9));
  EXPECT_THAT(reply->intermediates->masked_scores.Floats(), ElementsAre(10));
  EXPECT_EQ(reply->empty_rows, 11);
  EXPECT_THAT(reply->mean_attn_weights->Floats(), ElementsAre(12));
  EXPECT_THAT(reply->top_keys->keys.Integers(), ElementsAre(-13));
  EXPECT_THAT(reply->top_keys->weights.Floats(), ElementsAre(14));
  EXPECT_THAT(reply->log_sum_exp->Floats(), ElementsAre(15));
}

TEST(ClientConversionTest, ReplyHasOnlyWhatTheServerSent) {
  v1::AttendResponse response = ResponseOf(FloatTensor({1}));
  absl::StatusOr<AttendReply> reply = FromProto(response);
  ASSERT_THAT(reply, IsOk());
  EXPECT_FALSE(reply->attn_weights.has_value());
  EXPECT_FALSE(reply->intermediates.has_value());
  EXPECT_FALSE(reply->mean_attn_weights.has_value());
  EXPECT_FALSE(reply->top_keys.has_value());
  EXPECT_FALSE(reply->log_sum_exp.has_value());

  for (auto* tensor :
       {response.mutable_intermediates()->mutable_scores(), response.mutable_intermediates()->mutable_masked_scores(),
        response.mutable_intermediates()->mutable_context()}) {
    *tensor = FloatTensor({2});
  }
  reply = FromProto(response);
  ASSERT_THAT(reply, IsOk());
  EXPECT_FALSE(reply->intermediates->query.has_value());
  EXPECT_FALSE(reply->intermediates->key.has_value());
  EXPECT_FALSE(reply->intermediates->value.has_value());
  EXPECT_FALSE(reply->intermediates->capped_scores.has_value());
}

TEST(ClientConversionTest, ReplyBytesAreMovedNotCopied) {
  v1::AttendResponse response = ResponseOf(FloatTensor(std::vector<float>(1000)));
  const char* before = response.output().data().data();
  EXPECT_EQ(FromProto(std::move(response))->output.bytes.data(), before);
}

TEST(ClientConversionTest, DamagedReplyIsAnInternalError) {
  const auto internal = absl::StatusCode::kInternal;
  v1::Tensor tensor = FloatTensor({1, 2});
  tensor.set_shape(0, 3);
  EXPECT_THAT(FromProto(ResponseOf(tensor)),
              StatusIs(internal, "reply is damaged: output: shape [3] of float32 takes 12 bytes, got 8"));
  tensor.set_shape(0, -1);
  EXPECT_THAT(FromProto(ResponseOf(tensor)),
              StatusIs(internal, "reply is damaged: output: shape [-1] has a negative size"));
  tensor.set_dtype(v1::DATA_TYPE_INT8);
  EXPECT_THAT(FromProto(ResponseOf(tensor)), StatusIs(internal, "reply is damaged: output: unknown data type 6"));
  // 257 is FLOAT32 in its lowest byte.
  tensor.set_dtype(static_cast<v1::DataType>(257));
  EXPECT_THAT(FromProto(ResponseOf(tensor)), StatusIs(internal, "reply is damaged: output: unknown data type 257"));
  EXPECT_EQ(FromProto(v1::AttendResponse()).status().code(), internal);

  v1::AttendResponse without_weights = ResponseOf(FloatTensor({1}));
  *without_weights.mutable_top_keys()->mutable_keys() = IntTensor(1);
  EXPECT_THAT(FromProto(without_weights),
              StatusIs(internal, "reply is damaged: top_keys.weights: unknown data type 0"));
}

TEST(ClientConversionTest, StreamErrorKeepsCodeTextAndPushback) {
  v1::AttendStreamResponse response;
  response.set_request_id("id");
  response.mutable_error()->set_code(14);
  response.mutable_error()->set_message("queue is full");
  response.mutable_error()->set_retry_pushback_ms(30);
  const AttendStream::Item item = FromProto(response);
  EXPECT_EQ(item.request_id, "id");
  EXPECT_THAT(item.reply, StatusIs(absl::StatusCode::kUnavailable, "queue is full"));
  EXPECT_EQ(item.retry_after, 30ms);
}

TEST(ClientConversionTest, StreamReplyWithoutResultIsAnInternalError) {
  EXPECT_EQ(FromProto(v1::AttendStreamResponse()).reply.status().code(), absl::StatusCode::kInternal);
  v1::AttendStreamResponse success_as_error;
  success_as_error.mutable_error()->set_code(0);
  EXPECT_EQ(FromProto(success_as_error).reply.status().code(), absl::StatusCode::kInternal);
}

TEST(ClientConversionTest, WeightSetKeepsEveryField) {
  v1::WeightSetInfo proto;
  proto.set_name("ocr/layer0");
  proto.set_version(1);
  proto.set_checkpoint("ocr");
  proto.set_in_features(2);
  proto.set_in_k_features(3);
  proto.set_in_v_features(4);
  proto.set_num_heads(5);
  proto.set_head_dim(6);
  proto.set_out_features(7);
  proto.set_bytes(8);
  proto.set_num_kv_heads(9);
  proto.set_value_head_dim(10);
  proto.set_normalize_qk(true);
  v1::ParameterInfo& parameter = *proto.add_parameters();
  parameter.set_name("query/kernel");
  parameter.set_dtype(v1::DATA_TYPE_BFLOAT16);
  parameter.add_shape(2);
  parameter.add_shape(5);

  const WeightSetInfo info = FromProto(proto);
  EXPECT_EQ(info.name, "ocr/layer0");
  EXPECT_EQ(info.version, 1);
  EXPECT_EQ(info.checkpoint, "ocr");
  EXPECT_EQ(info.in_features, 2);
  EXPECT_EQ(info.in_k_features, 3);
  EXPECT_EQ(info.in_v_features, 4);
  EXPECT_EQ(info.num_heads, 5);
  EXPECT_EQ(info.head_dim, 6);
  EXPECT_EQ(info.out_features, 7);
  EXPECT_EQ(info.bytes, 8);
  EXPECT_EQ(info.num_kv_heads, 9);
  EXPECT_EQ(info.value_head_dim, 10);
  EXPECT_TRUE(info.normalize_qk);
  ASSERT_EQ(info.parameters.size(), 1u);
  EXPECT_EQ(info.parameters[0].name, "query/kernel");
  EXPECT_EQ(info.parameters[0].dtype, "bfloat16");
  EXPECT_THAT(info.parameters[0].shape, ElementsAre(2, 5));
}

}  // namespace
}  // namespace attention
