#include <gmock/gmock.h>

#include "client/internal/conversion.h"
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

TEST(ClientReplyConversionTest, ReplyKeepsEveryField) {
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

TEST(ClientReplyConversionTest, ReplyOmitsTensorsThatTheServerOmitted) {
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

TEST(ClientReplyConversionTest, ReplyBytesAreMoved) {
  v1::AttendResponse response = ResponseOf(FloatTensor(std::vector<float>(1000)));
  const char* before = response.output().data().data();
  EXPECT_EQ(FromProto(std::move(response))->output.bytes.data(), before);
}

TEST(ClientReplyConversionTest, RefusesAMalformedTensor) {
  const auto internal = absl::StatusCode::kInternal;
  v1::Tensor tensor = FloatTensor({1, 2});
  tensor.set_shape(0, 3);
  EXPECT_THAT(FromProto(ResponseOf(tensor)),
              StatusIs(internal, "reply.output: expected 12 bytes for shape [3] of float32, got 8"));
  tensor.set_shape(0, -1);
  EXPECT_THAT(FromProto(ResponseOf(tensor)),
              StatusIs(internal, "reply.output.shape: expected no negative size, got [-1]"));
  tensor.set_dtype(v1::DATA_TYPE_INT8);
  EXPECT_THAT(FromProto(ResponseOf(tensor)),
              StatusIs(internal, "reply.output.dtype: expected a known data type, got 6"));
  // The lowest byte of 257 is FLOAT32.
  tensor.set_dtype(static_cast<v1::DataType>(257));
  EXPECT_THAT(FromProto(ResponseOf(tensor)),
              StatusIs(internal, "reply.output.dtype: expected a known data type, got 257"));
  EXPECT_THAT(FromProto(v1::AttendResponse()),
              StatusIs(internal, "reply.output.dtype: expected a known data type, got 0"));

  v1::AttendResponse without_weights = ResponseOf(FloatTensor({1}));
  *without_weights.mutable_top_keys()->mutable_keys() = IntTensor(1);
  EXPECT_THAT(FromProto(without_weights),
              StatusIs(internal, "reply.top_keys.weights.dtype: expected a known data type, got 0"));
}

TEST(ClientReplyConversionTest, StreamErrorKeepsCodeTextAndPushback) {
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

TEST(ClientReplyConversionTest, RefusesAStreamReplyWithoutResult) {
  const auto neither = StatusIs(absl::StatusCode::kInternal, "reply: expected a response or an error, got neither");
  EXPECT_THAT(FromProto(v1::AttendStreamResponse()).reply, neither);
  v1::AttendStreamResponse success_as_error;
  success_as_error.mutable_error()->set_code(0);
  EXPECT_THAT(FromProto(success_as_error).reply, neither);
}

TEST(ClientReplyConversionTest, StatusKeepsCodeAndText) {
  struct Case {
    grpc::StatusCode code;
    absl::StatusCode expected;
  };
  const Case cases[] = {
      {grpc::StatusCode::CANCELLED, absl::StatusCode::kCancelled},
      {grpc::StatusCode::UNKNOWN, absl::StatusCode::kUnknown},
      {grpc::StatusCode::INVALID_ARGUMENT, absl::StatusCode::kInvalidArgument},
      {grpc::StatusCode::DEADLINE_EXCEEDED, absl::StatusCode::kDeadlineExceeded},
      {grpc::StatusCode::NOT_FOUND, absl::StatusCode::kNotFound},
      {grpc::StatusCode::ALREADY_EXISTS, absl::StatusCode::kAlreadyExists},
      {grpc::StatusCode::PERMISSION_DENIED, absl::StatusCode::kPermissionDenied},
      {grpc::StatusCode::RESOURCE_EXHAUSTED, absl::StatusCode::kResourceExhausted},
      {grpc::StatusCode::FAILED_PRECONDITION, absl::StatusCode::kFailedPrecondition},
      {grpc::StatusCode::ABORTED, absl::StatusCode::kAborted},
      {grpc::StatusCode::OUT_OF_RANGE, absl::StatusCode::kOutOfRange},
      {grpc::StatusCode::UNIMPLEMENTED, absl::StatusCode::kUnimplemented},
      {grpc::StatusCode::INTERNAL, absl::StatusCode::kInternal},
      {grpc::StatusCode::UNAVAILABLE, absl::StatusCode::kUnavailable},
      {grpc::StatusCode::DATA_LOSS, absl::StatusCode::kDataLoss},
      {grpc::StatusCode::UNAUTHENTICATED, absl::StatusCode::kUnauthenticated},
  };
  for (const Case& c : cases) {
    EXPECT_THAT(ToAbslStatus(grpc::Status(c.code, "the text")), StatusIs(c.expected, "the text"));
    EXPECT_THAT(ToAbslStatus(static_cast<int>(c.code), "the text"), StatusIs(c.expected, "the text"));
  }
  EXPECT_THAT(ToAbslStatus(grpc::Status::OK), IsOk());
}

TEST(ClientReplyConversionTest, StatusWithAnotherNumberIsUnknown) {
  EXPECT_THAT(ToAbslStatus(17, "the text"), StatusIs(absl::StatusCode::kUnknown, "status code 17: the text"));
  EXPECT_THAT(ToAbslStatus(-1, "the text"), StatusIs(absl::StatusCode::kUnknown, "status code -1: the text"));
}

TEST(ClientReplyConversionTest, WeightSetKeepsEveryField) {
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
  proto.set_layout("torch");
  proto.add_aliases("canary");
  proto.add_aliases("stable");
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
  EXPECT_EQ(info.layout, "torch");
  EXPECT_THAT(info.aliases, ElementsAre("canary", "stable"));
}

TEST(ClientReplyConversionTest, LoadedCheckpointKeepsEveryField) {
  v1::LoadCheckpointResponse response;
  response.add_weight_sets()->set_name("ocr/layer0");
  response.add_unused_tensors("embedding");
  response.set_checkpoint("ocr");
  response.set_version(3);
  response.set_sha256("abc");
  response.set_format("npz");
  response.set_unchanged(true);

  const LoadedCheckpoint loaded = FromProto(response);
  ASSERT_EQ(loaded.weight_sets.size(), 1u);
  EXPECT_EQ(loaded.weight_sets[0].name, "ocr/layer0");
  EXPECT_THAT(loaded.unused_tensors, ElementsAre("embedding"));
  EXPECT_EQ(loaded.checkpoint, "ocr");
  EXPECT_EQ(loaded.version, 3);
  EXPECT_EQ(loaded.sha256, "abc");
  EXPECT_EQ(loaded.format, "npz");
  EXPECT_TRUE(loaded.unchanged);
}

}  // namespace
}  // namespace attention
