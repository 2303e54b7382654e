#include "server/rpc/validation/input_validation.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "server/rpc/validation/request_validation.h"
#include "tests/testing/matchers.h"
#include "tests/testing/server/wire.h"

namespace attention::server {
namespace {

using ::attention::test::IsOk;
using ::attention::test::StatusIs;
using ::attention::test::WireTensor;

using Layout = v1::HeadLayout;

constexpr int64_t kMaxMessageBytes = 1 << 20;
constexpr int64_t kHuge = int64_t{1} << 62;

v1::Tensor Zeros(const Shape& shape) {
  return WireTensor(v1::DATA_TYPE_FLOAT32, shape, std::string(*ByteCount(shape, DType::kFloat32), '\0'));
}

v1::AttendRequest Request(Layout::Axes axes, int64_t num_heads, int64_t num_kv_heads, const Shape& q) {
  v1::AttendRequest request;
  request.mutable_heads()->set_axes(axes);
  request.mutable_heads()->set_num_heads(num_heads);
  request.mutable_heads()->set_num_kv_heads(num_kv_heads);
  *request.mutable_inputs_q() = Zeros(q);
  return request;
}

struct LayoutCase {
  std::string name;
  Layout::Axes axes;
  int64_t num_kv_heads;  // of 4 heads
  Shape q, k, v;         // empty k and v are absent
  Shape output;
  HeadShape heads;
  HeadAxes head_axes;
  int64_t batch, q_length, kv_length;
};

void PrintTo(const LayoutCase& layout, std::ostream* out) { *out << layout.name; }

class HeadLayoutTest : public ::testing::TestWithParam<LayoutCase> {};

TEST_P(HeadLayoutTest, FindsTheHeads) {
  const LayoutCase& c = GetParam();
  v1::AttendRequest request = Request(c.axes, 4, c.num_kv_heads, c.q);
  if (!c.k.empty()) *request.mutable_inputs_k() = Zeros(c.k);
  if (!c.v.empty()) *request.mutable_inputs_v() = Zeros(c.v);
  const auto checked = CheckRequest(request, nullptr, kMaxMessageBytes);
  ASSERT_THAT(checked, IsOk());
  const AttentionCall& call = checked->call;
  EXPECT_EQ(call.shape.heads.num_heads, c.heads.num_heads);
  EXPECT_EQ(call.shape.heads.num_kv_heads, c.heads.num_kv_heads);
  EXPECT_EQ(call.shape.heads.head_dim, c.heads.head_dim);
  EXPECT_EQ(call.shape.heads.value_head_dim, c.heads.value_head_dim);
  EXPECT_EQ(call.shape.head_axes, c.head_axes);
  EXPECT_EQ(call.shape.batch, c.batch);
  EXPECT_EQ(call.shape.q_length, c.q_length);
  EXPECT_EQ(call.shape.kv_length, c.kv_length);
  EXPECT_EQ(checked->reply.tensors[0].shape, c.output);
}

constexpr HeadShape kEqual = {.num_heads = 4, .num_kv_heads = 4, .head_dim = 3, .value_head_dim = 3};
constexpr HeadShape kGrouped = {.num_heads = 4, .num_kv_heads = 2, .head_dim = 3, .value_head_dim = 5};
constexpr HeadShape kMultiQuery = {.num_heads = 4, .num_kv_heads = 1, .head_dim = 3, .value_head_dim = 1};

constexpr auto kFeatures = Layout::AXES_LENGTH_FEATURES;
constexpr auto kLengthHeads = Layout::AXES_LENGTH_HEADS;
constexpr auto kHeadsLength = Layout::AXES_HEADS_LENGTH;

const LayoutCase kLayouts[] = {
    {"FeaturesSelf", kFeatures, 0, {2, 7, 12}, {}, {}, {2, 7, 12}, kEqual, HeadAxes::kLengthHeads, 2, 7, 7},
    {"FeaturesEqual", kFeatures, 4, {2, 7, 12}, {2, 6, 12}, {}, {2, 7, 12}, kEqual, HeadAxes::kLengthHeads, 2, 7, 6},
    {"FeaturesGrouped",
     kFeatures,
     2,
     {2, 7, 12},
     {2, 6, 6},
     {2, 6, 10},
     {2, 7, 20},
     kGrouped,
     HeadAxes::kLengthHeads,
     2,
     7,
     6},
    {"FeaturesMultiQuery", kFeatures, 1, {7, 12}, {6, 3}, {6, 1}, {7, 4}, kMultiQuery, HeadAxes::kLengthHeads, 1, 7, 6},
    {"LengthHeadsSelf", kLengthHeads, 0, {7, 4, 3}, {}, {}, {7, 4, 3}, kEqual, HeadAxes::kLengthHeads, 1, 7, 7},
    {"LengthHeadsEqual",
     kLengthHeads,
     0,
     {2, 7, 4, 3},
     {2, 6, 4, 3},
     {},
     {2, 7, 4, 3},
     kEqual,
     HeadAxes::kLengthHeads,
     2,
     7,
     6},
    {"LengthHeadsGrouped",
     kLengthHeads,
     2,
     {2, 7, 4, 3},
     {2, 6, 2, 3},
     {2, 6, 2, 5},
     {2, 7, 4, 5},
     kGrouped,
     HeadAxes::kLengthHeads,
     2,
     7,
     6},
    {"LengthHeadsMultiQuery",
     kLengthHeads,
     1,
     {2, 3, 7, 4, 3},
     {2, 3, 6, 1, 3},
     {2, 3, 6, 1, 1},
     {2, 3, 7, 4, 1},
     kMultiQuery,
     HeadAxes::kLengthHeads,
     6,
     7,
     6},
    {"HeadsLengthSelf", kHeadsLength, 4, {2, 4, 7, 3}, {}, {}, {2, 4, 7, 3}, kEqual, HeadAxes::kHeadsLength, 2, 7, 7},
    {"HeadsLengthEqual",
     kHeadsLength,
     0,
     {4, 7, 3},
     {4, 6, 3},
     {4, 6, 3},
     {4, 7, 3},
     kEqual,
     HeadAxes::kHeadsLength,
     1,
     7,
     6},
    {"HeadsLengthGrouped",
     kHeadsLength,
     2,
     {2, 4, 7, 3},
     {2, 2, 6, 3},
     {2, 2, 6, 5},
     {2, 4, 7, 5},
     kGrouped,
     HeadAxes::kHeadsLength,
     2,
     7,
     6},
    {"HeadsLengthMultiQuery",
     kHeadsLength,
     1,
     {2, 4, 7, 3},
     {2, 1, 6, 3},
     {2, 1, 6, 1},
     {2, 4, 7, 1},
     kMultiQuery,
     HeadAxes::kHeadsLength,
     2,
     7,
     6},
    {"NoKeys", kHeadsLength, 0, {2, 4, 7, 3}, {2, 4, 0, 3}, {}, {2, 4, 7, 3}, kEqual, HeadAxes::kHeadsLength, 2, 7, 0},
};

INSTANTIATE_TEST_SUITE_P(Layouts, HeadLayoutTest, ::testing::ValuesIn(kLayouts),
                         [](const auto& info) { return info.param.name; });

struct BadLayout {
  std::string name;
  std::function<void(v1::AttendRequest&)> mutate;  // of 4 heads of 3, [2, 7, 4, 3], with keys
  std::string message;
};

void PrintTo(const BadLayout& bad, std::ostream* out) { *out << bad.name; }

class BadHeadLayoutTest : public ::testing::TestWithParam<BadLayout> {};

TEST_P(BadHeadLayoutTest, NamesFieldExpectedAndActual) {
  v1::AttendRequest request = Request(kLengthHeads, 4, 0, {2, 7, 4, 3});
  *request.mutable_inputs_k() = Zeros({2, 6, 4, 3});
  GetParam().mutate(request);
  EXPECT_THAT(CheckRequest(request, nullptr, kMaxMessageBytes),
              StatusIs(absl::StatusCode::kInvalidArgument, GetParam().message));
}

BadLayout BadKeys(std::string name, int64_t num_kv_heads, const Shape& k, std::string message) {
  return {std::move(name),
          [=](auto& request) {
            request.mutable_heads()->set_num_kv_heads(num_kv_heads);
            *request.mutable_inputs_k() = Zeros(k);
          },
          std::move(message)};
}

BadLayout BadQuery(std::string name, Layout::Axes axes, const Shape& q, std::string message) {
  return {std::move(name), [=](auto& request) { request = Request(axes, 4, 0, q); }, std::move(message)};
}

INSTANTIATE_TEST_SUITE_P(
    Heads, BadHeadLayoutTest,
    ::testing::Values(
        BadLayout{"Missing", [](auto& request) { request.clear_heads(); },
                  "heads: expected a head layout in a request without weight_set, got none"},
        BadLayout{"NoHeads", [](auto& request) { request.mutable_heads()->set_num_heads(0); },
                  "heads.num_heads: expected at least 1, got 0"},
        BadLayout{"KvHeadsThree", [](auto& request) { request.mutable_heads()->set_num_kv_heads(3); },
                  "heads.num_kv_heads: expected a divisor of heads.num_heads 4, got 3"},
        BadLayout{"KvHeadsNegative", [](auto& request) { request.mutable_heads()->set_num_kv_heads(-1); },
                  "heads.num_kv_heads: expected a divisor of heads.num_heads 4, got -1"},
        BadLayout{"AxesUnspecified", [](auto& request) { request.mutable_heads()->clear_axes(); },
                  "heads.axes: expected LENGTH_FEATURES, LENGTH_HEADS or HEADS_LENGTH, got unspecified"},
        BadLayout{"AxesOutOfEnum",
                  [](auto& request) { request.mutable_heads()->set_axes(static_cast<Layout::Axes>(4)); },
                  "heads.axes: expected LENGTH_FEATURES, LENGTH_HEADS or HEADS_LENGTH, got 4"},
        BadLayout{"SelfAttentionOfGroups",
                  [](auto& request) {
                    request.clear_inputs_k();
                    request.mutable_heads()->set_num_kv_heads(2);
                  },
                  "inputs_k: expected a tensor because heads.num_kv_heads 2 differs from heads.num_heads 4, got none"}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Inputs, BadHeadLayoutTest,
    ::testing::Values(
        BadQuery("FeaturesWithoutLength", kFeatures, {12},
                 "inputs_q: expected shape [batch…, length, heads × head_dim], got shape [12]"),
        BadQuery("Features10", kFeatures, {7, 10},
                 "inputs_q: expected a positive multiple of heads.num_heads 4 features, got 10 in shape [7, 10]"),
        BadQuery("Features0", kFeatures, {7, 0},
                 "inputs_q: expected a positive multiple of heads.num_heads 4 features, got 0 in shape [7, 0]"),
        BadQuery("LengthHeadsWithoutHeads", kLengthHeads, {7, 12},
                 "inputs_q: expected shape [batch…, length, heads, head_dim], got shape [7, 12]"),
        BadQuery("HeadsBeforeLength", kLengthHeads, {2, 4, 7, 3},
                 "inputs_q: expected heads.num_heads 4 heads in axes [batch…, length, heads, head_dim], got 7 in shape "
                 "[2, 4, 7, 3]"),
        BadQuery("LengthBeforeHeads", kHeadsLength, {2, 7, 4, 3},
                 "inputs_q: expected heads.num_heads 4 heads in axes [batch…, heads, length, head_dim], got 7 in shape "
                 "[2, 7, 4, 3]"),
        BadQuery("HeadDim0", kHeadsLength, {4, 7, 0},
                 "inputs_q: expected head_dim of at least 1, got 0 in shape [4, 7, 0]"),
        BadKeys("KeysOfTwoHeads", 0, {2, 6, 2, 3},
                "inputs_k: expected heads.num_heads 4 heads in axes [batch…, length, heads, head_dim], got 2 in shape "
                "[2, 6, 2, 3]"),
        BadKeys("KeysOfFourHeads", 2, {2, 6, 4, 3},
                "inputs_k: expected heads.num_kv_heads 2 heads in axes [batch…, length, heads, head_dim], got 4 in "
                "shape [2, 6, 4, 3]"),
        BadKeys("KeysOfOtherHeadDim", 0, {2, 6, 4, 5},
                "inputs_k: expected head_dim 3 as in inputs_q, got 5 in 4 heads of shape [2, 6, 4, 5]"),
        BadKeys("KeysOfOtherBatch", 0, {1, 6, 4, 3}, "inputs_k: expected batch [2] as in inputs_q, got [1]"),
        BadLayout{"ValuesOfTwoHeads",
                  [](auto& request) {
                    *request.mutable_inputs_v() = Zeros({2, 6, 2, 3});
                  },
                  "inputs_v: expected heads.num_heads 4 heads in axes [batch…, length, heads, head_dim], got 2 in "
                  "shape [2, 6, 2, 3]"},
        BadLayout{"ValuesOfOtherLength",
                  [](auto& request) {
                    *request.mutable_inputs_v() = Zeros({2, 5, 4, 3});
                  },
                  "inputs_k: expected kv_length 5 as in inputs_v, got 6"},
        BadLayout{"Integers",
                  [](auto& request) {
                    *request.mutable_inputs_q() = WireTensor(v1::DATA_TYPE_INT8, {1, 4, 3}, std::string(12, '\0'));
                  },
                  "inputs_q: expected dtype float32, bfloat16, float16 or float64, got int8"}),
    [](const auto& info) { return info.param.name; });

// Tensors of no bytes: the product of their heads must be checked for overflow.
TEST(HeadLayoutTest, RefusesHeadsWhoseProductOverflows) {
  EXPECT_THAT(CheckRequest(Request(kLengthHeads, kHuge, 0, {0, 5, kHuge, 4}), nullptr, kMaxMessageBytes),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "heads.num_heads: expected num_heads × head_dim below 2^63, got 4611686018427387904 × 4"));
  v1::AttendRequest request = Request(kFeatures, kHuge, 1, {0, 5, kHuge});
  *request.mutable_inputs_k() = Zeros({0, 5, 1});
  *request.mutable_inputs_v() = Zeros({0, 5, 2});
  EXPECT_THAT(CheckRequest(request, nullptr, kMaxMessageBytes),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "heads.num_heads: expected num_heads × value_head_dim below 2^63, got 4611686018427387904 × 2"));
}

TEST(HeadLayoutTest, AcceptsHugeAxesWithoutElements) {
  for (const Shape& q : {Shape{0, kHuge, 4, 3}, Shape{kHuge, 0, 4, 3}, Shape{0, 0, 4, 3}}) {
    const auto checked = CheckRequest(Request(kLengthHeads, 4, 0, q), nullptr, kMaxMessageBytes);
    ASSERT_THAT(checked, IsOk());
    EXPECT_TRUE(checked->nothing_to_compute());
    EXPECT_EQ(checked->reply.tensors[0].shape, q);
  }
}

}  // namespace
}  // namespace attention::server
