#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "server/rpc/validation/request_validation.h"
#include "tests/testing/matchers.h"
#include "tests/testing/server/wire.h"

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

v1::Tensor Float64s(const Shape& shape, const std::vector<double>& numbers) {
  return WireTensor(v1::DATA_TYPE_FLOAT64, shape,
                    std::string(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(double)));
}

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

class RequestValidationErrorsTest : public ::testing::TestWithParam<BadCase> {};

std::string Name(const ::testing::TestParamInfo<BadCase>& info) { return info.param.name; }

TEST_P(RequestValidationErrorsTest, NamesFieldExpectedAndActual) {
  v1::AttendRequest request = GoodRequest();
  GetParam().mutate(request);
  EXPECT_THAT(CheckRequest(request, &kLayer, kMaxMessageBytes),
              StatusIs(absl::StatusCode::kInvalidArgument, GetParam().message));
}

BadCase BadQuery(std::string name, const v1::Tensor& query, std::string message) {
  return {std::move(name), [query](auto& request) { *request.mutable_inputs_q() = query; }, std::move(message)};
}

// Public bug reports of servers that trust the declared shape.
INSTANTIATE_TEST_SUITE_P(
    ShapeAndBytes, RequestValidationErrorsTest,
    ::testing::Values(
        BadQuery("Bytes20Of24", Float32s({1, 2, 3}, 20),
                 "inputs_q: expected 24 bytes for shape [1, 2, 3] of float32, got 20"),
        BadQuery("Bytes28Of24", Float32s({1, 2, 3}, 28),
                 "inputs_q: expected 24 bytes for shape [1, 2, 3] of float32, got 28"),
        BadQuery("Bytes0Of24", Float32s({1, 2, 3}, 0),
                 "inputs_q: expected 24 bytes for shape [1, 2, 3] of float32, got 0"),
        BadQuery("Float64BytesUnderFloat32", Float32s({1, 2, 3}, 48),
                 "inputs_q: expected 24 bytes for shape [1, 2, 3] of float32, got 48"),
        BadQuery("MinusOneSize", Float32s({-1, 2, 3}, 24),
                 "inputs_q: expected sizes of at least 0, got shape [-1, 2, 3]"),
        BadQuery("TwoNegativeSizesOfPositiveProduct", Float32s({1, -2, -3}, 24),
                 "inputs_q: expected sizes of at least 0, got shape [1, -2, -3]"),
        BadQuery("ProductWrapsToZero", Float32s({int64_t{1} << 33, int64_t{1} << 31, 1}, 0),
                 "inputs_q: expected at least 2^63 bytes for shape [8589934592, 2147483648, 1] of float32, got 0"),
        BadQuery("BytesWrapTo24", Float32s({1, (int64_t{1} << 62) + 2, 3}, 24),
                 "inputs_q: expected at least 2^63 bytes for shape [1, 4611686018427387906, 3] of float32, got 24"),
        BadQuery("BytesWrapWhereElementsDoNot", Float32s({1, int64_t{1} << 62, 1}, 0),
                 "inputs_q: expected at least 2^63 bytes for shape [1, 4611686018427387904, 1] of float32, got 0"),
        BadQuery("Rank0", Float32s({}, 4), "inputs_q: expected shape [batch…, length, features], got shape []"),
        BadQuery("Rank1", Float32s({6}, 24), "inputs_q: expected shape [batch…, length, features], got shape [6]"),
        BadQuery("Rank40", Float32s(Shape(40, 1), 4), "inputs_q: expected at most 8 axes, got 40"),
        BadQuery("Rank9", Float32s(Shape(9, 1), 4), "inputs_q: expected at most 8 axes, got 9"),
        BadQuery("Feature4For3", Float32s({1, 2, 4}, 32),
                 "inputs_q: expected 3 features (axis 0 of query_kernel), got 4 in shape [1, 2, 4]"),
        BadQuery("NoFeatures", Float32s({1, 2, 0}, 0),
                 "inputs_q: expected 3 features (axis 0 of query_kernel), got 0 in shape [1, 2, 0]"),
        BadQuery("Batch2Against1", Float32s({2, 2, 3}, 48), "inputs_k: expected batch [2] as in inputs_q, got [1]"),
        BadQuery("NoBatchAxisAgainstOne", Float32s({2, 3}, 24), "inputs_k: expected batch [] as in inputs_q, got [1]"),
        BadQuery("DTypeInt32", WireTensor(v1::DATA_TYPE_INT32, {1, 2, 3}, std::string(24, '\0')),
                 "inputs_q: expected dtype float32, bfloat16, float16 or float64, got int32"),
        BadQuery("DTypeBool", WireTensor(v1::DATA_TYPE_BOOL, {1, 2, 3}, std::string(6, '\0')),
                 "inputs_q: expected dtype float32, bfloat16, float16 or float64, got bool"),
        BadQuery("DTypeOutOfEnum", WireTensor(static_cast<v1::DataType>(9999), {1, 2, 3}, std::string(24, '\0')),
                 "inputs_q: expected dtype float32, bfloat16, float16 or float64, got 9999"),
        BadQuery("DTypeNegative", WireTensor(static_cast<v1::DataType>(-7), {1, 2, 3}, std::string(24, '\0')),
                 "inputs_q: expected dtype float32, bfloat16, float16 or float64, got -7"),
        BadQuery("DTypeNotSet", WireTensor(v1::DATA_TYPE_UNSPECIFIED, {1, 2, 3}, std::string(24, '\0')),
                 "inputs_q: expected dtype float32, bfloat16, float16 or float64, got unspecified")),
    Name);

INSTANTIATE_TEST_SUITE_P(
    Fields, RequestValidationErrorsTest,
    ::testing::Values(
        BadCase{"QueryMissing", [](auto& request) { request.clear_inputs_q(); },
                "inputs_q: expected a tensor, got none"},
        BadCase{"ValuesWithoutKeys",
                [](auto& request) {
                  request.mutable_inputs_v()->Swap(request.mutable_inputs_k()), request.clear_inputs_k();
                },
                "inputs_v: expected inputs_k beside inputs_v, got inputs_v alone"},
        BadCase{"Keys5Values6",
                [](auto& request) {
                  *request.mutable_inputs_k() = Float32s({1, 5, 3}, 60);
                  *request.mutable_inputs_v() = Float32s({1, 6, 3}, 72);
                },
                "inputs_k: expected kv_length 6 as in inputs_v, got 5"},
        BadCase{"KeysOfOtherWidth",
                [](auto& request) {
                  *request.mutable_inputs_k() = Float32s({1, 2, 5}, 40);
                },
                "inputs_k: expected 3 features (axis 0 of key_kernel), got 5 in shape [1, 2, 5]"},
        BadCase{"ValuesOfOtherBatch",
                [](auto& request) {
                  *request.mutable_inputs_v() = Float32s({2, 2, 3}, 48);
                },
                "inputs_v: expected batch [1] as in inputs_q, got [2]"},
        BadCase{"ValuesTooShort",
                [](auto& request) {
                  *request.mutable_inputs_v() = Float32s({1, 2, 3}, 23);
                },
                "inputs_v: expected 24 bytes for shape [1, 2, 3] of float32, got 23"},
        BadCase{"EmptyTensor", [](auto& request) { request.mutable_inputs_k()->Clear(); },
                "inputs_k: expected dtype float32, bfloat16, float16 or float64, got unspecified"},
        BadCase{"MaskOneByteShort",
                [](auto& request) {
                  *request.mutable_mask()->mutable_dense() =
                      WireTensor(v1::DATA_TYPE_BOOL, {1, 1, 2, 2}, std::string(3, '\1'));
                },
                "mask.dense: expected 4 bytes for shape [1, 1, 2, 2] of bool, got 3"},
        BadCase{"BiasOfBools",
                [](auto& request) {
                  *request.mutable_bias() = WireTensor(v1::DATA_TYPE_BOOL, {2, 2}, std::string(4, '\1'));
                },
                "bias: expected dtype float32, bfloat16, float16 or float64, got bool"},
        BadCase{"BiasTooWide",
                [](auto& request) {
                  *request.mutable_bias() = Float32s({1, 3}, 12);
                },
                "bias: expected a shape that broadcasts to [batch…, num_heads, q_length, kv_length] = [1, 1, 2, 2], "
                "got [1, 3]"},
        BadCase{"BiasOneByteShort", [](auto& request) { *request.mutable_bias() = Float32s({2}, 7); },
                "bias: expected 8 bytes for shape [2] of float32, got 7"},
        BadCase{"KvLengthAboveAll", [](auto& request) { request.mutable_mask()->add_kv_lengths(9); },
                "mask.kv_lengths[0]: expected 0 to kv_length 2, got 9"},
        BadCase{"SegmentsOfQueriesAlone",
                [](auto& request) {
                  *request.mutable_mask()->mutable_q_segment_ids() =
                      WireTensor(v1::DATA_TYPE_INT32, {2}, std::string(8, '\0'));
                },
                "mask.kv_segment_ids: expected ids because mask.q_segment_ids and inputs_k are set, got none"},
        BadCase{"HeadsWithAWeightSet", [](auto& request) { request.mutable_heads()->set_num_heads(1); },
                "heads: expected none in a request with weight_set, got a head layout"},
        BadCase{"TopKAboveKvLength", [](auto& request) { request.mutable_options()->set_top_k(3); },
                "options.top_k: expected 0 to kv_length 2, got 3"},
        BadCase{"OutputDTypeInt8",
                [](auto& request) { request.mutable_options()->set_output_dtype(v1::DATA_TYPE_INT8); },
                "options.output_dtype: expected dtype float32, bfloat16, float16 or float64, got int8"},
        BadCase{"OutputDTypeOutOfEnum",
                [](auto& request) { request.mutable_options()->set_output_dtype(static_cast<v1::DataType>(14)); },
                "options.output_dtype: expected dtype float32, bfloat16, float16 or float64, got 14"}),
    Name);

// Finite numbers of float64 that would become infinite in float32.
INSTANTIATE_TEST_SUITE_P(
    Float32Range, RequestValidationErrorsTest,
    ::testing::Values(BadQuery("QueryAbove", Float64s({1, 2, 3}, {0, 0, 0, 0, 0, 1e300}),
                               "inputs_q: expected numbers within the range of float32, got 1e+300 at [0, 1, 2]"),
                      BadQuery("QueryBelow", Float64s({1, 2, 3}, {0, -3.5e38, 0, 0, 1e300, 0}),
                               "inputs_q: expected numbers within the range of float32, got -3.5e+38 at [0, 0, 1]"),
                      BadCase{"KeyBelow",
                              [](auto& request) {
                                *request.mutable_inputs_k() = Float64s({1, 2, 3}, {0, 0, 0, -1e39, 0, 0});
                              },
                              "inputs_k: expected numbers within the range of float32, got -1e+39 at [0, 1, 0]"},
                      BadCase{"ValueAbove",
                              [](auto& request) {
                                *request.mutable_inputs_v() = Float64s({1, 2, 3}, {1e39, 0, 0, 0, 0, 0});
                              },
                              "inputs_v: expected numbers within the range of float32, got 1e+39 at [0, 0, 0]"},
                      BadCase{"BiasAbove",
                              [](auto& request) {
                                *request.mutable_bias() = Float64s({2, 2}, {-1e300, 0, 1e39, 0});
                              },
                              "bias: expected numbers within the range of float32, got 1e+39 at [1, 0]"}),
    Name);

TEST(Float32RangeTest, AcceptsNumbersThatRoundToTheLargestFloat32AndInfinities) {
  constexpr double kLargest = std::numeric_limits<float>::max(), kInfinity = std::numeric_limits<double>::infinity();
  v1::AttendRequest request = GoodRequest();
  *request.mutable_inputs_q() =
      Float64s({1, 2, 3}, {kLargest * (1 + 1e-9), -kLargest, kInfinity, -kInfinity, std::nan(""), 1e-300});
  EXPECT_THAT(CheckRequest(request, &kLayer, kMaxMessageBytes), IsOk());
}

}  // namespace
}  // namespace attention::server
