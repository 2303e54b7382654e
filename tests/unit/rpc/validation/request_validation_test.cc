#include "server/rpc/validation/request_validation.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/testing/matchers.h"
#include "tests/testing/server/wire.h"

namespace attention::server {
namespace {

using ::attention::test::IsOk;
using ::attention::test::StatusIs;
using ::attention::test::WireTensor;
using ::testing::ElementsAre;

constexpr int64_t kMaxMessageBytes = 1 << 20;
constexpr LayerShape kLayer = {.in_features = 3,
                               .in_k_features = 3,
                               .in_v_features = 3,
                               .heads = {.num_heads = 1, .num_kv_heads = 1, .head_dim = 4, .value_head_dim = 4},
                               .out_features = 4};

v1::Tensor Float32s(const Shape& shape) {
  return WireTensor(v1::DATA_TYPE_FLOAT32, shape, std::string(*ByteCount(shape, DType::kFloat32), '\0'));
}

std::vector<int64_t> Sizes(const InputTensor& tensor) { return {tensor.length, tensor.features}; }

// inputs_q and inputs_k [1, 2, 3].
v1::AttendRequest GoodRequest() {
  v1::AttendRequest request;
  request.set_weight_set("w");
  *request.mutable_inputs_q() = Float32s({1, 2, 3});
  *request.mutable_inputs_k() = Float32s({1, 2, 3});
  return request;
}

TEST(RequestValidationTest, NamesTheInputThatReplacesAnAbsentOne) {
  LayerShape wide_keys = kLayer;
  wide_keys.in_k_features = 5;
  v1::AttendRequest request = GoodRequest();
  request.clear_inputs_k();
  EXPECT_THAT(CheckRequest(request, &wide_keys, kMaxMessageBytes),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "inputs_k: expected 5 features (axis 0 of key_kernel), got 3 in shape [1, 2, 3] of inputs_q "
                       "(inputs_k is absent)"));
  LayerShape wide_values = kLayer;
  wide_values.in_v_features = 6;
  EXPECT_THAT(CheckRequest(GoodRequest(), &wide_values, kMaxMessageBytes),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "inputs_v: expected 6 features (axis 0 of value_kernel), got 3 in shape [1, 2, 3] of inputs_k "
                       "(inputs_v is absent)"));
}

TEST(RequestValidationTest, ViewsTheRequestWithoutCopying) {
  v1::AttendRequest request = GoodRequest();
  *request.mutable_inputs_q() = WireTensor(v1::DATA_TYPE_BFLOAT16, {2, 5, 7, 3}, std::string(420, '\0'));
  *request.mutable_inputs_k() = Float32s({2, 5, 4, 3});
  auto checked = CheckRequest(request, &kLayer, kMaxMessageBytes);
  ASSERT_THAT(checked, IsOk());
  const CheckedRequest moved = *std::move(checked);
  const AttentionCall& call = moved.call;
  EXPECT_EQ(call.shape.batch, 10);
  EXPECT_EQ(call.shape.q_length, 7);
  EXPECT_EQ(call.shape.kv_length, 4);
  EXPECT_EQ(call.shape.sharing, InputSharing::kValuesAreKeys);
  EXPECT_EQ(call.inputs_q.dtype, DType::kBFloat16);
  EXPECT_THAT(Sizes(call.inputs_q), ElementsAre(7, 3));
  EXPECT_THAT(Sizes(call.inputs_k), ElementsAre(4, 3));
  EXPECT_THAT(Sizes(call.inputs_v), ElementsAre(4, 3));
  const auto* q_bytes = reinterpret_cast<const std::byte*>(request.inputs_q().data().data());
  const auto* k_bytes = reinterpret_cast<const std::byte*>(request.inputs_k().data().data());
  EXPECT_EQ(call.inputs_q.data, q_bytes);
  EXPECT_EQ(call.inputs_k.data, k_bytes);
  EXPECT_EQ(call.inputs_v.data, k_bytes);
  EXPECT_EQ(call.output.dtype, DType::kBFloat16);
  EXPECT_EQ(moved.request_bytes, 900);
  EXPECT_EQ(call.tokens, 10 * 7 + 10 * 4);
  EXPECT_EQ(call.shape.heads.head_dim, 4);
  EXPECT_EQ(call.shape.head_axes, HeadAxes::kLengthHeads);
  EXPECT_FALSE(moved.nothing_to_compute());
}

TEST(RequestValidationTest, UsesInputsQForAbsentInputs) {
  v1::AttendRequest request = GoodRequest();
  request.clear_inputs_k();
  request.mutable_options()->set_output_dtype(v1::DATA_TYPE_FLOAT16);
  const auto checked = CheckRequest(request, &kLayer, kMaxMessageBytes);
  ASSERT_THAT(checked, IsOk());
  EXPECT_EQ(checked->call.shape.sharing, InputSharing::kAll);
  EXPECT_EQ(checked->call.shape.kv_length, 2);
  EXPECT_EQ(checked->call.inputs_v.data, checked->call.inputs_q.data);
  EXPECT_EQ(checked->call.output.dtype, DType::kFloat16);
}

TEST(RequestValidationTest, AcceptsZeroToSixBatchAxes) {
  for (int axes = 0; axes <= 6; ++axes) {
    Shape shape(axes, 1);
    shape.insert(shape.end(), {2, 3});
    v1::AttendRequest request;
    *request.mutable_inputs_q() = Float32s(shape);
    const auto checked = CheckRequest(request, &kLayer, kMaxMessageBytes);
    ASSERT_THAT(checked, IsOk()) << axes;
    EXPECT_EQ(checked->call.shape.batch, 1);
    EXPECT_EQ(checked->reply.tensors[0].shape.size(), axes + 2u);
  }
}

struct ZeroCase {
  std::string name;
  Shape q, k;
  Shape output;
  bool nothing_to_compute;
};

void PrintTo(const ZeroCase& zero, std::ostream* out) { *out << zero.name; }

class RequestZeroSizeTest : public ::testing::TestWithParam<ZeroCase> {};

TEST_P(RequestZeroSizeTest, IsServed) {
  v1::AttendRequest request = GoodRequest();
  *request.mutable_inputs_q() = Float32s(GetParam().q);
  *request.mutable_inputs_k() = Float32s(GetParam().k);
  *request.mutable_mask()->mutable_dense() = WireTensor(v1::DATA_TYPE_BOOL, {1, 1, 1}, std::string(1, '\1'));
  const auto checked = CheckRequest(request, &kLayer, kMaxMessageBytes);
  ASSERT_THAT(checked, IsOk());
  EXPECT_EQ(checked->reply.tensors[0].shape, GetParam().output);
  EXPECT_EQ(checked->nothing_to_compute(), GetParam().nothing_to_compute);
  EXPECT_TRUE(checked->call.mask.dense.batch_offsets.empty());
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, RequestZeroSizeTest,
    ::testing::Values(
        ZeroCase{"NoKeys", {1, 3, 3}, {1, 0, 3}, {1, 3, 4}, false},
        ZeroCase{"NoQueries", {1, 0, 3}, {1, 3, 3}, {1, 0, 4}, true},
        ZeroCase{"NoBatch", {0, 3, 3}, {0, 4, 3}, {0, 3, 4}, true},
        ZeroCase{"AllEmpty", {0, 0, 3}, {0, 0, 3}, {0, 0, 4}, true},
        // No bytes, but a batch that no loop may iterate over.
        ZeroCase{"HugeBatch", {int64_t{1} << 40, 0, 3}, {int64_t{1} << 40, 0, 3}, {int64_t{1} << 40, 0, 4}, true},
        ZeroCase{"HugeLength", {0, int64_t{1} << 60, 3}, {0, int64_t{1} << 60, 3}, {0, int64_t{1} << 60, 4}, true}),
    [](const auto& info) { return info.param.name; });

TEST(RequestValidationTest, ComputesRequestedKeysAndValuesWithoutQueries) {
  v1::AttendRequest request = GoodRequest();
  *request.mutable_inputs_q() = Float32s({1, 0, 3});
  request.mutable_options()->set_return_intermediates(true);
  const auto checked = CheckRequest(request, &kLayer, kMaxMessageBytes);
  ASSERT_THAT(checked, IsOk());
  EXPECT_FALSE(checked->nothing_to_compute());
  EXPECT_EQ(checked->reply.bytes, 2 * (2 * 4 * 4));
}

TEST(RequestValidationTest, ConvertsMaskBiasAndOptions) {
  v1::AttendRequest request = GoodRequest();
  *request.mutable_inputs_q() = Float32s({2, 2, 3});
  *request.mutable_inputs_k() = Float32s({2, 5, 3});
  *request.mutable_mask()->mutable_dense() = WireTensor(v1::DATA_TYPE_BOOL, {5}, std::string(5, '\1'));
  request.mutable_mask()->add_kv_lengths(4);
  request.mutable_mask()->add_kv_lengths(3);
  *request.mutable_mask()->mutable_q_segment_ids() = WireTensor(v1::DATA_TYPE_INT32, {2}, std::string(8, '\0'));
  *request.mutable_mask()->mutable_kv_segment_ids() = WireTensor(v1::DATA_TYPE_INT32, {5}, std::string(20, '\0'));
  *request.mutable_bias() = WireTensor(v1::DATA_TYPE_FLOAT16, {2, 1, 1, 5}, std::string(20, '\0'));
  request.mutable_options()->set_empty_rows(v1::EMPTY_ROWS_ZERO);
  request.mutable_options()->set_top_k(5);
  const auto checked = CheckRequest(request, &kLayer, kMaxMessageBytes);
  ASSERT_THAT(checked, IsOk());
  const AttentionCall& call = checked->call;
  EXPECT_EQ(call.mask.dense.kv_stride, 1);
  ASSERT_EQ(call.mask.limits.size(), 2u);
  EXPECT_EQ(call.LimitsOf(1).kv_length, 3);
  EXPECT_EQ(call.mask.segments.kv.size(), 5u);
  EXPECT_EQ(call.bias.dtype, DType::kFloat16);
  EXPECT_EQ(call.bias.data, reinterpret_cast<const std::byte*>(request.bias().data().data()));
  EXPECT_THAT(call.bias.batch_offsets, ElementsAre(0, 5));
  EXPECT_EQ(call.options.empty_rows, EmptyRowRule::kZero);
  EXPECT_EQ(call.options.top_k, 5);
  EXPECT_EQ(call.options.scale, 0.5f);
  EXPECT_EQ(call.empty_rows, nullptr);
  // Keys after the lengths are not needed, because the output of a row without keys is zero.
  EXPECT_EQ(call.tokens, 2 * 2 + 4 + 3);
  const int64_t wire = 2 * 2 * 3 * 4 + 2 * 5 * 3 * 4 + 5 + 2 * 8 + 8 + 20 + 20;
  const int64_t allocated = 2 * 8 + 2 * 8 + 2 * 32 + 7 * 8;  // offsets of mask and bias, limits, ids
  EXPECT_EQ(checked->request_bytes, wire + allocated);
}

TEST(RequestValidationTest, KeepsShapesAndHeadsWithoutAWeightSet) {
  v1::AttendRequest request;
  *request.mutable_inputs_q() = Float32s({2, 6, 5, 4});
  *request.mutable_inputs_k() = Float32s({2, 3, 7, 4});
  *request.mutable_inputs_v() = Float32s({2, 3, 7, 8});
  request.mutable_heads()->set_num_heads(6);
  request.mutable_heads()->set_num_kv_heads(3);
  request.mutable_heads()->set_axes(v1::HeadLayout::AXES_HEADS_LENGTH);
  request.mutable_options()->set_return_intermediates(true);
  auto checked = CheckRequest(request, nullptr, kMaxMessageBytes);
  ASSERT_THAT(checked, IsOk());
  const CheckedRequest moved = *std::move(checked);
  const AttentionCall& call = moved.call;
  EXPECT_THAT(Sizes(call.inputs_q), ElementsAre(5, 6 * 4));
  EXPECT_THAT(Sizes(call.inputs_v), ElementsAre(7, 3 * 8));
  EXPECT_EQ(call.output.features, 6 * 8);
  EXPECT_EQ(call.inputs_v.data, reinterpret_cast<const std::byte*>(request.inputs_v().data().data()));
  EXPECT_EQ(call.shape.heads.KvHead(5), 2);
  EXPECT_EQ(call.options.scale, 0.5f);
  EXPECT_EQ(call.tokens, 2 * 5 + 2 * 7);
  EXPECT_EQ(call.shape.sharing, InputSharing::kNone);
  for (const ReplyTensor& tensor : moved.reply.tensors) {
    EXPECT_NE(tensor.field, ReplyField::kQuery);
    if (tensor.field != ReplyField::kContext) continue;
    EXPECT_EQ(tensor.shape, Shape({2, 5, 6, 8}));
  }
}

TEST(RequestValidationTest, ChecksRequestIdAndWeightSetName) {
  v1::AttendRequest request = GoodRequest();
  request.set_request_id(std::string(128, 'r'));
  EXPECT_THAT(CheckNames(request), IsOk());
  request.set_request_id(std::string(129, 'r'));
  EXPECT_THAT(CheckNames(request),
              StatusIs(absl::StatusCode::kInvalidArgument, "request_id: expected at most 128 bytes, got 129"));
  request = GoodRequest();
  request.set_weight_set("../../secret");
  EXPECT_THAT(CheckNames(request), StatusIs(absl::StatusCode::kInvalidArgument, ::testing::StartsWith("weight_set: ")));
}

TEST(RequestValidationTest, RejectsAVersionWithoutAWeightSet) {
  v1::AttendRequest request = GoodRequest();
  request.set_version(3);
  EXPECT_THAT(CheckNames(request), IsOk());
  request.clear_weight_set();
  EXPECT_THAT(CheckNames(request), StatusIs(absl::StatusCode::kInvalidArgument,
                                            "version: expected 0 in a request without weight_set, got 3"));
  request.set_version(0);
  EXPECT_THAT(CheckNames(request), IsOk());
}

TEST(RequestValidationTest, RejectsAnAliasWithoutAWeightSetOrWithAVersion) {
  v1::AttendRequest request;
  request.set_alias("stable");
  EXPECT_THAT(CheckNames(request), StatusIs(absl::StatusCode::kInvalidArgument,
                                            "alias: expected none in a request without weight_set, got one"));
  request.set_weight_set("ocr");
  EXPECT_THAT(CheckNames(request), IsOk());
  request.set_version(3);
  EXPECT_THAT(CheckNames(request),
              StatusIs(absl::StatusCode::kInvalidArgument, "version: expected 0 in a request with alias, got 3"));
  request.set_version(0);
  request.set_alias("a/b");
  EXPECT_THAT(CheckNames(request), StatusIs(absl::StatusCode::kInvalidArgument,
                                            "alias: expected an alias [a-z0-9][a-z0-9._-]{0,63}, got \"a/b\""));
}

}  // namespace
}  // namespace attention::server
