#include "server/rpc/validation.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/testing/matchers.h"
#include "tests/testing/wire.h"

namespace attention::server {
namespace {

using ::attention::test::IsOk;
using ::attention::test::StatusIs;
using ::attention::test::WireTensor;

constexpr int64_t kMaxMessageBytes = 1 << 20;
constexpr LayerShape kLayer = {
    .in_features = 3, .in_k_features = 3, .in_v_features = 3, .num_heads = 1, .head_dim = 4, .out_features = 4};

v1::Tensor Float32s(const Shape& shape, int64_t bytes) {
  return WireTensor(v1::DATA_TYPE_FLOAT32, shape, std::string(bytes, '\0'));
}

// inputs_q and inputs_k [1, 2, 3].
v1::AttendRequest GoodRequest() {
  v1::AttendRequest request;
  request.set_weight_set("w");
  *request.mutable_inputs_q() = Float32s({1, 2, 3}, 24);
  *request.mutable_inputs_k() = Float32s({1, 2, 3}, 24);
  return request;
}

struct BadCase {
  std::string name;
  std::function<void(v1::AttendRequest&)> mutate;
  std::string message;
};

void PrintTo(const BadCase& bad, std::ostream* out) { *out << bad.name; }

class ValidationTest : public ::testing::TestWithParam<BadCase> {};

std::string Name(const ::testing::TestParamInfo<BadCase>& info) { return info.param.name; }

TEST_P(ValidationTest, NamesFieldWantedAndFound) {
  v1::AttendRequest request = GoodRequest();
  GetParam().mutate(request);
  EXPECT_THAT(CheckRequest(request, kLayer, kMaxMessageBytes),
              StatusIs(absl::StatusCode::kInvalidArgument, GetParam().message));
}

BadCase BadQuery(std::string name, const v1::Tensor& query, std::string message) {
  return {std::move(name), [query](auto& request) { *request.mutable_inputs_q() = query; }, std::move(message)};
}

// From public bug reports: the declared shape is believed.
INSTANTIATE_TEST_SUITE_P(
    ShapeAndBytes, ValidationTest,
    ::testing::Values(
        BadQuery("Bytes20Of24", Float32s({1, 2, 3}, 20), "inputs_q: shape [1, 2, 3] of float32 wants 24 bytes, got 20"),
        BadQuery("Bytes28Of24", Float32s({1, 2, 3}, 28), "inputs_q: shape [1, 2, 3] of float32 wants 24 bytes, got 28"),
        BadQuery("Bytes0Of24", Float32s({1, 2, 3}, 0), "inputs_q: shape [1, 2, 3] of float32 wants 24 bytes, got 0"),
        BadQuery("Float64BytesUnderFloat32", Float32s({1, 2, 3}, 48),
                 "inputs_q: shape [1, 2, 3] of float32 wants 24 bytes, got 48"),
        BadQuery("MinusOneSize", Float32s({-1, 2, 3}, 24), "inputs_q: shape [-1, 2, 3] has a negative size"),
        BadQuery("TwoNegativeSizesOfPositiveProduct", Float32s({1, -2, -3}, 24),
                 "inputs_q: shape [1, -2, -3] has a negative size"),
        BadQuery("ProductWrapsToZero", Float32s({int64_t{1} << 33, int64_t{1} << 31, 1}, 0),
                 "inputs_q: shape [8589934592, 2147483648, 1] of float32 wants more than 2^63 bytes, got 0"),
        BadQuery("BytesWrapTo24", Float32s({1, (int64_t{1} << 62) + 2, 3}, 24),
                 "inputs_q: shape [1, 4611686018427387906, 3] of float32 wants more than 2^63 bytes, got 24"),
        BadQuery("BytesWrapWhereElementsDoNot", Float32s({1, int64_t{1} << 62, 1}, 0),
                 "inputs_q: shape [1, 4611686018427387904, 1] of float32 wants more than 2^63 bytes, got 0"),
        BadQuery("Rank0", Float32s({}, 4), "inputs_q: shape [], wanted [batch…, length, features]"),
        BadQuery("Rank1", Float32s({6}, 24), "inputs_q: shape [6], wanted [batch…, length, features]"),
        BadQuery("Rank40", Float32s(Shape(40, 1), 4), "inputs_q: 40 axes, wanted at most 8"),
        BadQuery("Rank9", Float32s(Shape(9, 1), 4), "inputs_q: 9 axes, wanted at most 8"),
        BadQuery("Feature4For3", Float32s({1, 2, 4}, 32),
                 "inputs_q: shape [1, 2, 4] has 4 features, wanted 3, axis 0 of query_kernel"),
        BadQuery("NoFeatures", Float32s({1, 2, 0}, 0),
                 "inputs_q: shape [1, 2, 0] has 0 features, wanted 3, axis 0 of query_kernel"),
        BadQuery("Batch2Against1", Float32s({2, 2, 3}, 48), "inputs_k: batch [1] differs from inputs_q batch [2]"),
        BadQuery("NoBatchAxisAgainstOne", Float32s({2, 3}, 24), "inputs_k: batch [1] differs from inputs_q batch []"),
        BadQuery("DTypeInt32", WireTensor(v1::DATA_TYPE_INT32, {1, 2, 3}, std::string(24, '\0')),
                 "inputs_q: dtype int32, wanted float32, bfloat16, float16 or float64"),
        BadQuery("DTypeBool", WireTensor(v1::DATA_TYPE_BOOL, {1, 2, 3}, std::string(6, '\0')),
                 "inputs_q: dtype bool, wanted float32, bfloat16, float16 or float64"),
        BadQuery("DTypeOutOfEnum", WireTensor(static_cast<v1::DataType>(9999), {1, 2, 3}, std::string(24, '\0')),
                 "inputs_q: dtype 9999, wanted float32, bfloat16, float16 or float64"),
        BadQuery("DTypeNegative", WireTensor(static_cast<v1::DataType>(-7), {1, 2, 3}, std::string(24, '\0')),
                 "inputs_q: dtype -7, wanted float32, bfloat16, float16 or float64"),
        BadQuery("DTypeNotSet", WireTensor(v1::DATA_TYPE_UNSPECIFIED, {1, 2, 3}, std::string(24, '\0')),
                 "inputs_q: dtype unspecified, wanted float32, bfloat16, float16 or float64")),
    Name);

INSTANTIATE_TEST_SUITE_P(
    Fields, ValidationTest,
    ::testing::Values(
        BadCase{"QueryMissing", [](auto& request) { request.clear_inputs_q(); }, "inputs_q: missing, wanted a tensor"},
        BadCase{"ValuesWithoutKeys",
                [](auto& request) {
                  request.mutable_inputs_v()->Swap(request.mutable_inputs_k()), request.clear_inputs_k();
                },
                "inputs_v: given without inputs_k, wanted both or inputs_k alone"},
        BadCase{"Keys5Values6",
                [](auto& request) {
                  *request.mutable_inputs_k() = Float32s({1, 5, 3}, 60);
                  *request.mutable_inputs_v() = Float32s({1, 6, 3}, 72);
                },
                "inputs_k: kv_length 5 differs from inputs_v kv_length 6"},
        BadCase{"KeysOfOtherWidth",
                [](auto& request) {
                  *request.mutable_inputs_k() = Float32s({1, 2, 5}, 40);
                },
                "inputs_k: shape [1, 2, 5] has 5 features, wanted 3, axis 0 of key_kernel"},
        BadCase{"ValuesOfOtherBatch",
                [](auto& request) {
                  *request.mutable_inputs_v() = Float32s({2, 2, 3}, 48);
                },
                "inputs_v: batch [2] differs from inputs_q batch [1]"},
        BadCase{"ValuesTooShort",
                [](auto& request) {
                  *request.mutable_inputs_v() = Float32s({1, 2, 3}, 23);
                },
                "inputs_v: shape [1, 2, 3] of float32 wants 24 bytes, got 23"},
        BadCase{"EmptyTensor", [](auto& request) { request.mutable_inputs_k()->Clear(); },
                "inputs_k: dtype unspecified, wanted float32, bfloat16, float16 or float64"},
        BadCase{"MaskOneByteShort",
                [](auto& request) {
                  *request.mutable_mask()->mutable_dense() =
                      WireTensor(v1::DATA_TYPE_BOOL, {1, 1, 2, 2}, std::string(3, '\1'));
                },
                "mask.dense: shape [1, 1, 2, 2] of bool wants 4 bytes, got 3"},
        BadCase{"OutputDTypeInt8",
                [](auto& request) { request.mutable_options()->set_output_dtype(v1::DATA_TYPE_INT8); },
                "options.output_dtype: dtype int8, wanted float32, bfloat16, float16 or float64"},
        BadCase{"OutputDTypeOutOfEnum",
                [](auto& request) { request.mutable_options()->set_output_dtype(static_cast<v1::DataType>(14)); },
                "options.output_dtype: dtype 14, wanted float32, bfloat16, float16 or float64"}),
    Name);

TEST(ValidationTest, NamesTheInputThatStandsForAnother) {
  LayerShape wide_keys = kLayer;
  wide_keys.in_k_features = 5;
  v1::AttendRequest request = GoodRequest();
  request.clear_inputs_k();
  EXPECT_THAT(CheckRequest(request, wide_keys, kMaxMessageBytes),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "inputs_k (left out, so inputs_q): shape [1, 2, 3] has 3 features, wanted 5, axis 0 of "
                       "key_kernel"));
  LayerShape wide_values = kLayer;
  wide_values.in_v_features = 6;
  EXPECT_THAT(CheckRequest(GoodRequest(), wide_values, kMaxMessageBytes),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "inputs_v (left out, so inputs_k): shape [1, 2, 3] has 3 features, wanted 6, axis 0 of "
                       "value_kernel"));
}

TEST(ValidationTest, ViewsTheRequestWithoutCopying) {
  v1::AttendRequest request = GoodRequest();
  *request.mutable_inputs_q() = WireTensor(v1::DATA_TYPE_BFLOAT16, {2, 5, 7, 3}, std::string(420, '\0'));
  *request.mutable_inputs_k() = Float32s({2, 5, 4, 3}, 480);
  auto checked = CheckRequest(request, kLayer, kMaxMessageBytes);
  ASSERT_THAT(checked, IsOk());
  const CheckedRequest moved = *std::move(checked);
  const AttentionCall& call = moved.call;
  EXPECT_EQ(call.batch, 10);
  EXPECT_EQ(call.q_length, 7);
  EXPECT_EQ(call.kv_length, 4);
  EXPECT_FALSE(call.k_is_q);
  EXPECT_TRUE(call.v_is_k);
  EXPECT_EQ(call.inputs_q.dtype, DType::kBFloat16);
  EXPECT_EQ(call.inputs_q.shape, Shape({10, 7, 3}));
  EXPECT_EQ(call.inputs_k.shape, Shape({10, 4, 3}));
  EXPECT_EQ(call.inputs_v.shape, Shape({10, 4, 3}));
  const auto* q_bytes = reinterpret_cast<const std::byte*>(request.inputs_q().data().data());
  const auto* k_bytes = reinterpret_cast<const std::byte*>(request.inputs_k().data().data());
  EXPECT_EQ(call.inputs_q.data, q_bytes);
  EXPECT_EQ(call.inputs_k.data, k_bytes);
  EXPECT_EQ(call.inputs_v.data, k_bytes);
  EXPECT_EQ(call.output_dtype, DType::kBFloat16);
  EXPECT_EQ(moved.request_bytes, 900);
  EXPECT_FALSE(moved.nothing_to_compute());
}

TEST(ValidationTest, TakesOneTensorForAllThree) {
  v1::AttendRequest request = GoodRequest();
  request.clear_inputs_k();
  request.mutable_options()->set_output_dtype(v1::DATA_TYPE_FLOAT16);
  const auto checked = CheckRequest(request, kLayer, kMaxMessageBytes);
  ASSERT_THAT(checked, IsOk());
  EXPECT_TRUE(checked->call.k_is_q);
  EXPECT_TRUE(checked->call.v_is_k);
  EXPECT_EQ(checked->call.kv_length, 2);
  EXPECT_EQ(checked->call.inputs_v.data, checked->call.inputs_q.data);
  EXPECT_EQ(checked->call.output_dtype, DType::kFloat16);
}

TEST(ValidationTest, TakesEveryNumberOfBatchAxes) {
  for (int axes = 0; axes <= 6; ++axes) {
    Shape shape(axes, 1);
    shape.insert(shape.end(), {2, 3});
    v1::AttendRequest request;
    *request.mutable_inputs_q() = Float32s(shape, 24);
    const auto checked = CheckRequest(request, kLayer, kMaxMessageBytes);
    ASSERT_THAT(checked, IsOk()) << axes;
    EXPECT_EQ(checked->call.batch, 1);
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

class ValidationZeroSizeTest : public ::testing::TestWithParam<ZeroCase> {};

TEST_P(ValidationZeroSizeTest, IsServed) {
  v1::AttendRequest request = GoodRequest();
  *request.mutable_inputs_q() = Float32s(GetParam().q, *ByteCount(GetParam().q, DType::kFloat32));
  *request.mutable_inputs_k() = Float32s(GetParam().k, *ByteCount(GetParam().k, DType::kFloat32));
  *request.mutable_mask()->mutable_dense() = WireTensor(v1::DATA_TYPE_BOOL, {1, 1, 1}, std::string(1, '\1'));
  const auto checked = CheckRequest(request, kLayer, kMaxMessageBytes);
  ASSERT_THAT(checked, IsOk());
  EXPECT_EQ(checked->reply.tensors[0].shape, GetParam().output);
  EXPECT_EQ(checked->nothing_to_compute(), GetParam().nothing_to_compute);
  EXPECT_TRUE(checked->call.mask.batch_offsets.empty());
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, ValidationZeroSizeTest,
    ::testing::Values(
        ZeroCase{"NoKeys", {1, 3, 3}, {1, 0, 3}, {1, 3, 4}, false},
        ZeroCase{"NoQueries", {1, 0, 3}, {1, 3, 3}, {1, 0, 4}, true},
        ZeroCase{"NoBatch", {0, 3, 3}, {0, 4, 3}, {0, 3, 4}, true},
        ZeroCase{"AllEmpty", {0, 0, 3}, {0, 0, 3}, {0, 0, 4}, true},
        // No bytes, but a batch that nobody may loop over.
        ZeroCase{"HugeBatch", {int64_t{1} << 40, 0, 3}, {int64_t{1} << 40, 0, 3}, {int64_t{1} << 40, 0, 4}, true},
        ZeroCase{"HugeLength", {0, int64_t{1} << 60, 3}, {0, int64_t{1} << 60, 3}, {0, int64_t{1} << 60, 4}, true}),
    [](const auto& info) { return info.param.name; });

TEST(ValidationTest, ComputesKeysAndValuesThatNoQueryAsksFor) {
  v1::AttendRequest request = GoodRequest();
  *request.mutable_inputs_q() = Float32s({1, 0, 3}, 0);
  request.mutable_options()->set_return_intermediates(true);
  const auto checked = CheckRequest(request, kLayer, kMaxMessageBytes);
  ASSERT_THAT(checked, IsOk());
  EXPECT_FALSE(checked->nothing_to_compute());
  EXPECT_EQ(checked->reply.bytes, 2 * (2 * 4 * 4));
}

TEST(ValidationTest, ChecksNamesBeforeAnythingElse) {
  v1::AttendRequest request = GoodRequest();
  request.set_request_id(std::string(128, 'r'));
  EXPECT_THAT(CheckNames(request), IsOk());
  request.set_request_id(std::string(129, 'r'));
  EXPECT_THAT(CheckNames(request),
              StatusIs(absl::StatusCode::kInvalidArgument, "request_id: 129 bytes, wanted at most 128"));
  request = GoodRequest();
  request.set_weight_set("../../secret");
  EXPECT_THAT(CheckNames(request), StatusIs(absl::StatusCode::kInvalidArgument, ::testing::StartsWith("weight_set: ")));
  request.clear_weight_set();
  EXPECT_THAT(CheckNames(request), StatusIs(absl::StatusCode::kInvalidArgument, ::testing::StartsWith("weight_set: ")));
}

}  // namespace
}  // namespace attention::server
