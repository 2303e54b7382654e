#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "server/rpc/validation/request_validation.h"
#include "tests/testing/matchers.h"
#include "tests/testing/wire.h"

namespace attention::server {
namespace {

using ::attention::test::IsOk;
using ::attention::test::StatusIs;
using ::attention::test::WireTensor;

constexpr int64_t kMaxMessageBytes = 1 << 20;
constexpr LayerShape kLayer = {.in_features = 3,
                               .in_k_features = 3,
                               .in_v_features = 3,
                               .heads = {.num_heads = 1, .num_kv_heads = 1, .head_dim = 4, .value_head_dim = 4},
                               .out_features = 4};

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
  EXPECT_THAT(CheckRequest(request, &kLayer, kMaxMessageBytes),
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
        BadCase{"BiasOfBools",
                [](auto& request) {
                  *request.mutable_bias() = WireTensor(v1::DATA_TYPE_BOOL, {2, 2}, std::string(4, '\1'));
                },
                "bias: dtype bool, wanted float32, bfloat16, float16 or float64"},
        BadCase{"BiasTooWide",
                [](auto& request) {
                  *request.mutable_bias() = Float32s({1, 3}, 12);
                },
                "bias: shape [1, 3] does not broadcast to [1, 1, 2, 2] ([batch…, num_heads, q_length, kv_length])"},
        BadCase{"BiasOneByteShort", [](auto& request) { *request.mutable_bias() = Float32s({2}, 7); },
                "bias: shape [2] of float32 wants 8 bytes, got 7"},
        BadCase{"KvLengthAboveAll", [](auto& request) { request.mutable_mask()->add_kv_lengths(9); },
                "mask.kv_lengths[0]: 9, wanted 0 to kv_length 2"},
        BadCase{"SegmentsOfQueriesAlone",
                [](auto& request) {
                  *request.mutable_mask()->mutable_q_segment_ids() =
                      WireTensor(v1::DATA_TYPE_INT32, {2}, std::string(8, '\0'));
                },
                "mask.kv_segment_ids: missing, wanted with mask.q_segment_ids, since inputs_k is given"},
        BadCase{"HeadsWithAWeightSet", [](auto& request) { request.mutable_heads()->set_num_heads(1); },
                "heads: given with a weight set, wanted without one"},
        BadCase{"TopKAboveKvLength", [](auto& request) { request.mutable_options()->set_top_k(3); },
                "options.top_k: 3, wanted 0 to kv_length 2"},
        BadCase{"OutputDTypeInt8",
                [](auto& request) { request.mutable_options()->set_output_dtype(v1::DATA_TYPE_INT8); },
                "options.output_dtype: dtype int8, wanted float32, bfloat16, float16 or float64"},
        BadCase{"OutputDTypeOutOfEnum",
                [](auto& request) { request.mutable_options()->set_output_dtype(static_cast<v1::DataType>(14)); },
                "options.output_dtype: dtype 14, wanted float32, bfloat16, float16 or float64"}),
    Name);

}  // namespace
}  // namespace attention::server
