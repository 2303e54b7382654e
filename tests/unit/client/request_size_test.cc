#include <gmock/gmock.h>

#include <limits>
#include <vector>

#include "client/internal/conversion.h"
#include "tests/testing/matchers.h"

namespace attention {
namespace {

using test::StatusIs;

constexpr int64_t kLimit = std::numeric_limits<int32_t>::max();

// A float32 tensor whose bytes must not be read: there are fewer than it claims.
TensorRef Unreadable(absl::Span<const int64_t> shape, size_t bytes) {
  static const char byte = 0;
  return {DataType::kFloat32, shape, {&byte, bytes}};
}

TEST(ClientRequestSizeTest, IsTheSizeOfTheEncodedRequest) {
  const std::vector<float> numbers(1000);
  const std::vector<uint8_t> visible(300);
  const int64_t shapes[][3] = {{1, 1, 1}, {1, 1, 31}, {1, 1, 32}, {2, 1, 150}, {1, 1000, 1}, {1, 0, 5}};
  for (const auto& shape : shapes) {
    const TensorRef tensor = Float32({numbers.data(), static_cast<size_t>(shape[0] * shape[1] * shape[2])}, shape);
    AttendRequest request{.weight_set = "ocr/layer0", .version = 7, .inputs_q = tensor};
    EXPECT_EQ(CheckedRequestSize(request, kLimit).value(), ToProto(request).ByteSizeLong());

    const int64_t mask_shape[] = {300};
    request.inputs_k = tensor;
    request.inputs_v = tensor;
    request.mask.dense = Bool(visible, mask_shape);
    request.return_attn_weights = true;
    request.output_dtype = DataType::kFloat64;
    request.request_id = std::string(200, 'a');
    request.priority = -1;
    EXPECT_EQ(CheckedRequestSize(request, kLimit).value(), ToProto(request).ByteSizeLong());
  }
}

TEST(ClientRequestSizeTest, CountsEveryOtherField) {
  const std::vector<float> numbers(200);
  const std::vector<int64_t> ids(200, 1), lengths(100, 300), few = {1};
  const int64_t shape[] = {200};
  const int64_t small_shape[] = {1};
  const TensorRef tensor = Float32(numbers, shape);
  const HeadLayout heads{.num_heads = 200, .num_kv_heads = 2, .axes = HeadAxes::kLengthFeatures};
  const SlidingWindow window{.diagonal = Corner::kBottomRight, .left = 300, .right = -2};
  AttendRequest requests[] = {
      {.weight_set = "w", .alias = "stable"},
      {.bias = tensor},
      {.heads = heads},
      {.scale = 0.0f},
      {.softcap = 2.0f},
      {.empty_rows = EmptyRows::kZero},
      {.return_mean_attn_weights = true, .return_log_sum_exp = true, .top_k = 300},
      {.compute_dtype = DataType::kBFloat16},
      {.mask = {.causal = Corner::kTopLeft}},
      {.mask = {.causal = 0}},
      {.mask = {.causal = -1}},
      {.mask = {.window = window}},
      {.mask = {.kv_lengths = lengths}},
      {.mask = {.kv_lengths = few}},
      {.mask = {.q_lengths = lengths}},
      {.mask = {.q_segment_ids = Int64(ids, shape)}},
      {.mask = {.kv_segment_ids = Int64(few, small_shape)}},
      {.mask = {.dense = tensor,
                .causal = 5,
                .window = window,
                .kv_lengths = lengths,
                .q_lengths = few,
                .q_segment_ids = Int64(ids, shape),
                .kv_segment_ids = Int64(few, small_shape)},
       .bias = tensor,
       .heads = heads},
  };
  for (size_t i = 0; i < std::size(requests); ++i) {
    requests[i].inputs_q = tensor;
    EXPECT_EQ(CheckedRequestSize(requests[i], kLimit).value_or(-1), ToProto(requests[i]).ByteSizeLong()) << i;
  }
}

TEST(ClientRequestSizeTest, RefusesATensorAboveTheLimitWithoutReadingIt) {
  const int64_t shape[] = {1, 268435456, 2};
  const AttendRequest request{.inputs_q = Unreadable(shape, size_t{1} << 31)};
  EXPECT_THAT(CheckedRequestSize(request, kLimit),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       "inputs_q: expected at most 2147483647 bytes (max_message_bytes), got 2147483648"));
}

TEST(ClientRequestSizeTest, RefusesTensorsThatAreTooLargeTogether) {
  const int64_t shape[] = {1, 268435455, 1};
  const TensorRef tensor = Unreadable(shape, 1073741820);
  AttendRequest request{.inputs_q = tensor};
  // The data with its tag and length, dtype (2), shape (1 + 1 + 1 + 4 + 1) and the tag and length of the tensor.
  EXPECT_EQ(CheckedRequestSize(request, kLimit).value(), 1073741820 + (5 + 1) + 2 + 8 + (5 + 1));
  request.inputs_k = tensor;
  EXPECT_THAT(CheckedRequestSize(request, kLimit),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       "request: expected at most 2147483647 bytes (max_message_bytes), got 2147483684"));
}

TEST(ClientRequestSizeTest, AcceptsARequestOfExactlyTheLimit) {
  const std::vector<float> numbers(6);
  const int64_t shape[] = {1, 2, 3};
  const AttendRequest request{.weight_set = "demo", .inputs_q = Float32(numbers, shape)};
  const int64_t size = CheckedRequestSize(request, kLimit).value();
  EXPECT_EQ(CheckedRequestSize(request, size).value(), size);
  EXPECT_EQ(CheckedRequestSize(request, size - 1).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(ClientRequestSizeTest, NamesTheTensorWhoseShapeAndBytesDisagree) {
  const std::vector<float> numbers(6);
  const int64_t right[] = {2, 3};
  const int64_t wrong[] = {2, 4};
  const std::string disagree = ": expected 32 bytes for shape [2, 4] of float32, got 24";
  const TensorRef good = Float32(numbers, right);
  const TensorRef bad = Float32(numbers, wrong);
  const auto invalid = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(CheckedRequestSize({.inputs_q = bad}, kLimit), StatusIs(invalid, "inputs_q" + disagree));
  EXPECT_THAT(CheckedRequestSize({.inputs_q = good, .inputs_k = bad}, kLimit),
              StatusIs(invalid, "inputs_k" + disagree));
  EXPECT_THAT(CheckedRequestSize({.inputs_q = good, .inputs_v = bad}, kLimit),
              StatusIs(invalid, "inputs_v" + disagree));
  EXPECT_THAT(CheckedRequestSize({.inputs_q = good, .bias = bad}, kLimit), StatusIs(invalid, "bias" + disagree));
  EXPECT_THAT(CheckedRequestSize({.inputs_q = good, .mask = {.dense = bad}}, kLimit),
              StatusIs(invalid, "mask.dense" + disagree));
  EXPECT_THAT(CheckedRequestSize({.inputs_q = good, .mask = {.q_segment_ids = bad}}, kLimit),
              StatusIs(invalid, "mask.q_segment_ids" + disagree));
  EXPECT_THAT(CheckedRequestSize({.inputs_q = good, .mask = {.kv_segment_ids = bad}}, kLimit),
              StatusIs(invalid, "mask.kv_segment_ids" + disagree));
}

TEST(ClientRequestSizeTest, RefusesMoreLengthsThanTheLimitWithoutReadingThem) {
  const int64_t length = 1;
  const absl::Span<const int64_t> many(&length, size_t{1} << 31);
  EXPECT_THAT(CheckedRequestSize({.mask = {.kv_lengths = many}}, kLimit),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       "mask.kv_lengths: expected at most 2147483647 bytes (max_message_bytes), got 2147483648"));
  EXPECT_EQ(CheckedRequestSize({.mask = {.q_lengths = many}}, kLimit).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(ClientRequestSizeTest, RefusesAShapeWhoseBytesOverflow) {
  // 2^62 elements of 4 bytes: modulo 2^64 the product is 0, which is the number of bytes given.
  const int64_t shape[] = {int64_t{1} << 31, int64_t{1} << 31};
  EXPECT_THAT(CheckedRequestSize({.inputs_q = Unreadable(shape, 0)}, kLimit),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "inputs_q.shape: expected at most 2^63 - 1 bytes, got [2147483648, 2147483648] of float32"));
}

}  // namespace
}  // namespace attention
