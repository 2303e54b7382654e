// Every rule of AttendRequest, violated once over a socket: the message has the one form of error text and names the
// field.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/testing/error_form.h"
#include "tests/testing/matchers.h"
#include "tests/testing/server/requests.h"
#include "tests/testing/server/running_server.h"
#include "tests/testing/server/wire.h"

namespace attention::test {
namespace {

using absl::StatusCode;

constexpr int64_t kHuge = int64_t{1} << 62;

// One server for all cases.
class ErrorTextsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    server::Config config;
    config.max_message_bytes = config.max_inflight_bytes = 1 << 20;
    auto running = RunningServer::Start({.checkpoints = {{"ones", ToParameters(OnesLayer())}}, .config = config});
    ASSERT_THAT(running, IsOk());
    running_ = running->release();
  }
  static void TearDownTestSuite() { delete std::exchange(running_, nullptr); }

  void SetUp() override { ASSERT_NE(running_, nullptr); }

  static RunningServer* running_;
};

RunningServer* ErrorTextsTest::running_ = nullptr;

struct BadRequest {
  std::string name;
  std::string field;
  std::function<void(v1::AttendRequest&)> mutate;
  StatusCode code = StatusCode::kInvalidArgument;
};

void PrintTo(const BadRequest& bad, std::ostream* out) { *out << bad.name; }

std::string Name(const ::testing::TestParamInfo<BadRequest>& info) { return info.param.name; }

v1::Tensor Floats(const std::vector<int64_t>& shape, int64_t count) {
  return WireFloats(shape, std::vector<float>(count, 1));
}

// The base of each case: inputs_q and inputs_k [1, 2, 3] for the weight set "ones".
class BadRequestTest : public ErrorTextsTest, public ::testing::WithParamInterface<BadRequest> {};

TEST_P(BadRequestTest, HasTheOneForm) {
  v1::AttendRequest request = QuestionRequest("ones");
  GetParam().mutate(request);
  ExpectErrorForm(running_->AttendRaw(request).status(), GetParam().code, GetParam().field);
}

const BadRequest kBadNames[] = {
    {"RequestIdTooLong", "request_id", [](auto& r) { r.set_request_id(std::string(129, 'r')); }},
    {"WeightSetName", "weight_set", [](auto& r) { r.set_weight_set("../secret"); }},
    {"VersionWithoutWeightSet", "version",
     [](auto& r) {
       r.clear_weight_set();
       r.set_version(1);
     }},
    {"AliasWithoutWeightSet", "alias",
     [](auto& r) {
       r.clear_weight_set();
       r.set_alias("stable");
     }},
    {"VersionWithAlias", "version",
     [](auto& r) {
       r.set_version(1);
       r.set_alias("stable");
     }},
    {"AliasName", "alias", [](auto& r) { r.set_alias("a/b"); }},
};

const BadRequest kBadInputs[] = {
    {"QueryMissing", "inputs_q", [](auto& r) { r.clear_inputs_q(); }},
    {"ValuesWithoutKeys", "inputs_v",
     [](auto& r) {
       r.mutable_inputs_v()->Swap(r.mutable_inputs_k());
       r.clear_inputs_k();
     }},
    {"DType", "inputs_k",
     [](auto& r) {
       *r.mutable_inputs_k() = WireInt32s({1, 2, 3}, {1, 2, 3, 4, 5, 6});
     }},
    {"DTypeUnspecified", "inputs_k", [](auto& r) { r.mutable_inputs_k()->Clear(); }},
    {"TooManyAxes", "inputs_q", [](auto& r) { *r.mutable_inputs_q() = Floats(std::vector<int64_t>(9, 1), 1); }},
    {"NegativeSize", "inputs_q",
     [](auto& r) {
       *r.mutable_inputs_q() = Floats({-1, 2, 3}, 6);
     }},
    {"TooFewBytes", "inputs_q",
     [](auto& r) {
       *r.mutable_inputs_q() = Floats({1, 2, 3}, 5);
     }},
    {"BytesOverflow", "inputs_q",
     [](auto& r) {
       *r.mutable_inputs_q() = Floats({1, kHuge, 3}, 6);
     }},
    {"TooFewAxes", "inputs_q", [](auto& r) { *r.mutable_inputs_q() = Floats({6}, 6); }},
    {"Features", "inputs_k",
     [](auto& r) {
       *r.mutable_inputs_k() = Floats({1, 2, 4}, 8);
     }},
    {"BatchOfKeys", "inputs_k",
     [](auto& r) {
       *r.mutable_inputs_k() = Floats({2, 2, 3}, 12);
     }},
    {"BatchOfValues", "inputs_v",
     [](auto& r) {
       *r.mutable_inputs_v() = Floats({2, 2, 3}, 12);
     }},
    {"LengthOfValues", "inputs_k",
     [](auto& r) {
       *r.mutable_inputs_v() = Floats({1, 5, 3}, 15);
     }},
    {"HeadsWithWeightSet", "heads", [](auto& r) { r.mutable_heads()->set_num_heads(1); }},
    {"BiasDType", "bias",
     [](auto& r) {
       *r.mutable_bias() = WireBools({2}, {1, 1});
     }},
    {"BiasShape", "bias", [](auto& r) { *r.mutable_bias() = Floats({3}, 3); }},
};

const BadRequest kBadMasks[] = {
    {"DenseDType", "mask.dense", [](auto& r) { *r.mutable_mask()->mutable_dense() = Floats({2}, 2); }},
    {"DenseElement", "mask.dense",
     [](auto& r) {
       *r.mutable_mask()->mutable_dense() = WireBools({2}, {1, 7});
     }},
    {"DenseShape", "mask.dense",
     [](auto& r) {
       *r.mutable_mask()->mutable_dense() = WireBools({3}, {1, 1, 1});
     }},
    {"KvLengthsCount", "mask.kv_lengths",
     [](auto& r) {
       for (const int64_t length : {1, 2}) r.mutable_mask()->add_kv_lengths(length);
     }},
    {"KvLength", "mask.kv_lengths[0]", [](auto& r) { r.mutable_mask()->add_kv_lengths(3); }},
    {"QLength", "mask.q_lengths[0]", [](auto& r) { r.mutable_mask()->add_q_lengths(-1); }},
    {"CausalWithoutPosition", "mask.causal", [](auto& r) { r.mutable_mask()->mutable_causal(); }},
    {"CausalCorner", "mask.causal.corner",
     [](auto& r) { r.mutable_mask()->mutable_causal()->set_corner(v1::Diagonal::CORNER_UNSPECIFIED); }},
    {"WindowWithoutDiagonal", "mask.window.diagonal", [](auto& r) { r.mutable_mask()->mutable_window()->set_left(1); }},
    {"WindowWithoutPosition", "mask.window.diagonal",
     [](auto& r) { r.mutable_mask()->mutable_window()->mutable_diagonal(); }},
    {"WindowLeft", "mask.window.left",
     [](auto& r) {
       r.mutable_mask()->mutable_window()->mutable_diagonal()->set_offset(0);
       r.mutable_mask()->mutable_window()->set_left(-2);
     }},
    {"WindowRight", "mask.window.right",
     [](auto& r) {
       r.mutable_mask()->mutable_window()->mutable_diagonal()->set_offset(0);
       r.mutable_mask()->mutable_window()->set_right(-2);
     }},
    {"QuerySegmentsAlone", "mask.kv_segment_ids",
     [](auto& r) {
       *r.mutable_mask()->mutable_q_segment_ids() = WireInt32s({2}, {1, 1});
     }},
    {"KeySegmentsAlone", "mask.q_segment_ids",
     [](auto& r) {
       *r.mutable_mask()->mutable_kv_segment_ids() = WireInt32s({2}, {1, 1});
     }},
    {"SegmentsDType", "mask.q_segment_ids",
     [](auto& r) {
       *r.mutable_mask()->mutable_q_segment_ids() = Floats({2}, 2);
       *r.mutable_mask()->mutable_kv_segment_ids() = WireInt32s({2}, {1, 1});
     }},
    {"SegmentsShape", "mask.kv_segment_ids",
     [](auto& r) {
       *r.mutable_mask()->mutable_q_segment_ids() = WireInt32s({2}, {1, 1});
       *r.mutable_mask()->mutable_kv_segment_ids() = WireInt32s({3}, {1, 1, 1});
     }},
    {"EmptyRow", "mask",
     [](auto& r) {
       r.mutable_mask()->add_kv_lengths(0);
       r.mutable_options()->set_empty_rows(v1::EMPTY_ROWS_ERROR);
     }},
};

const BadRequest kBadOptions[] = {
    {"ComputeDType", "options.compute_dtype",
     [](auto& r) { r.mutable_options()->set_compute_dtype(v1::DATA_TYPE_FLOAT16); }},
    {"OutputDType", "options.output_dtype", [](auto& r) { r.mutable_options()->set_output_dtype(v1::DATA_TYPE_INT8); }},
    {"EmptyRows", "options.empty_rows",
     [](auto& r) { r.mutable_options()->set_empty_rows(static_cast<v1::EmptyRows>(9)); }},
    {"Scale", "options.scale", [](auto& r) { r.mutable_options()->set_scale(std::nanf("")); }},
    {"Softcap", "options.softcap", [](auto& r) { r.mutable_options()->set_softcap(0); }},
    {"TopK", "options.top_k", [](auto& r) { r.mutable_options()->set_top_k(3); }},
};

const BadRequest kBadSizes[] = {
    {"ReplyTooLarge", "reply",
     [](auto& r) {
       *r.mutable_inputs_q() = Floats({1, 1000, 3}, 3000);
       *r.mutable_inputs_k() = Floats({1, 1000, 3}, 3000);
       r.mutable_options()->set_return_attn_weights(true);
     },
     StatusCode::kResourceExhausted},
    {"RequestTooLarge", "request",
     [](auto& r) {
       *r.mutable_inputs_q() = Floats({1, 60000, 3}, 180000);
       *r.mutable_inputs_k() = Floats({1, 1, 3}, 3);
     },
     StatusCode::kResourceExhausted},
};

INSTANTIATE_TEST_SUITE_P(Names, BadRequestTest, ::testing::ValuesIn(kBadNames), Name);
INSTANTIATE_TEST_SUITE_P(Inputs, BadRequestTest, ::testing::ValuesIn(kBadInputs), Name);
INSTANTIATE_TEST_SUITE_P(Masks, BadRequestTest, ::testing::ValuesIn(kBadMasks), Name);
INSTANTIATE_TEST_SUITE_P(Options, BadRequestTest, ::testing::ValuesIn(kBadOptions), Name);
INSTANTIATE_TEST_SUITE_P(Sizes, BadRequestTest, ::testing::ValuesIn(kBadSizes), Name);

// The base of each case: 4 heads of 3 without a weight set, inputs_q [7, 4, 3].
class BadHeadLayoutTest : public ErrorTextsTest, public ::testing::WithParamInterface<BadRequest> {};

TEST_P(BadHeadLayoutTest, HasTheOneForm) {
  v1::AttendRequest request;
  request.mutable_heads()->set_num_heads(4);
  request.mutable_heads()->set_axes(v1::HeadLayout::AXES_LENGTH_HEADS);
  *request.mutable_inputs_q() = Floats({7, 4, 3}, 84);
  GetParam().mutate(request);
  ExpectErrorForm(running_->AttendRaw(request).status(), GetParam().code, GetParam().field);
}

const BadRequest kBadHeadLayouts[] = {
    {"Missing", "heads", [](auto& r) { r.clear_heads(); }},
    {"NumHeads", "heads.num_heads", [](auto& r) { r.mutable_heads()->set_num_heads(0); }},
    {"NumKvHeads", "heads.num_kv_heads", [](auto& r) { r.mutable_heads()->set_num_kv_heads(3); }},
    {"Axes", "heads.axes", [](auto& r) { r.mutable_heads()->clear_axes(); }},
    {"GroupedWithoutKeys", "inputs_k", [](auto& r) { r.mutable_heads()->set_num_kv_heads(2); }},
    {"TooFewAxes", "inputs_q",
     [](auto& r) {
       *r.mutable_inputs_q() = Floats({7, 12}, 84);
     }},
    {"Features", "inputs_q",
     [](auto& r) {
       r.mutable_heads()->set_axes(v1::HeadLayout::AXES_LENGTH_FEATURES);
       *r.mutable_inputs_q() = Floats({7, 10}, 70);
     }},
    {"HeadsOfQuery", "inputs_q",
     [](auto& r) {
       *r.mutable_inputs_q() = Floats({4, 7, 3}, 84);
     }},
    {"HeadsOfKeys", "inputs_k",
     [](auto& r) {
       *r.mutable_inputs_k() = Floats({7, 2, 3}, 42);
     }},
    {"HeadDimZero", "inputs_q",
     [](auto& r) {
       *r.mutable_inputs_q() = Floats({7, 4, 0}, 0);
     }},
    {"HeadDimOfKeys", "inputs_k",
     [](auto& r) {
       *r.mutable_inputs_k() = Floats({7, 4, 5}, 140);
     }},
    {"ProductOverflow", "heads.num_heads",
     [](auto& r) {
       r.mutable_heads()->set_num_heads(kHuge);
       *r.mutable_inputs_q() = Floats({0, 5, kHuge, 4}, 0);
     }},
};

INSTANTIATE_TEST_SUITE_P(Heads, BadHeadLayoutTest, ::testing::ValuesIn(kBadHeadLayouts), Name);

}  // namespace
}  // namespace attention::test
