// Scores up to the limits of float32, with scale, soft cap and bias.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "tests/testing/matchers.h"
#include "tests/testing/reference/reference_checks.h"
#include "tests/testing/server/requests.h"
#include "tests/testing/server/running_server.h"
#include "tests/testing/server/wire.h"

namespace attention::test {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kLowest = std::numeric_limits<float>::lowest();

// One query and two keys with head_dim 1 and the values 1 and 2: a score is query · key.
struct Case {
  const char* name;
  float query;
  std::vector<float> keys;
  std::vector<float> bias;
  std::vector<uint8_t> mask;
  float softcap;  // 0: none
  double expected;
};

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

const Case kCases[] = {
    {"LargestAndLowest", 1, {3e38f, -3e38f}, {}, {}, 0, 1},
    {"LowestAlone", 1, {kLowest, kLowest}, {}, {}, 0, 1.5},
    {"MinusInfinityBesideANumber", 1, {-kInf, 0}, {}, {}, 0, 2},
    // The keys are visible, so this is not an empty row but 0/0.
    {"NothingButMinusInfinity", 1, {-kInf, -kInf}, {}, {}, 0, kNoNumber},
    {"PlusInfinity", 1, {kInf, 0}, {}, {}, 0, kNoNumber},
    {"NaN", 1, {kNaN, 0}, {}, {}, 0, kNoNumber},
    // tanh of an infinity is 1: the scores are 1 and −1, and the weights are 1 to e⁻².
    {"InfinitiesUnderASoftcap", 1, {kInf, -kInf}, {}, {}, 1, 1 + 1 / (1 + std::exp(2.0))},
    {"NaNUnderASoftcap", 1, {kNaN, 0}, {}, {}, 1, kNoNumber},
    {"ATinySoftcap", 1, {5, -5}, {}, {}, 1e-30f, 1.5},
    {"AHugeSoftcap", 1, {0, 0}, {}, {}, 3e38f, 1.5},
    {"LowestBias", 1, {0, 0}, {kLowest, 0}, {}, 0, 2},
    {"LowestBiasForAll", 1, {0, 0}, {kLowest, kLowest}, {}, 0, 1.5},
    {"InfiniteBias", 1, {0, 0}, {kInf, 0}, {}, 0, kNoNumber},
    {"BiasThatIsNoNumber", 1, {0, 0}, {kNaN, 0}, {}, 0, kNoNumber},
    {"InfiniteBiasAtAHiddenKey", 1, {0, 0}, {kInf, 0}, {0, 1}, 0, 2},
    {"BiasThatIsNoNumberAtAHiddenKey", 1, {0, 0}, {kNaN, 0}, {0, 1}, 0, 2},
    {"InfiniteKeyThatTheBiasHides", 1, {kInf, 0}, {-kInf, 0}, {}, 0, 2},
    {"KeyThatIsNoNumberThatTheBiasHides", 1, {kNaN, 0}, {-kInf, 0}, {}, 1, 2},
};

v1::AttendRequest RequestOf(const Case& c) {
  v1::AttendRequest request;
  request.mutable_heads()->set_num_heads(1);
  request.mutable_heads()->set_axes(v1::HeadLayout::AXES_LENGTH_FEATURES);
  *request.mutable_inputs_q() = WireFloats({1, 1}, {c.query});
  *request.mutable_inputs_k() = WireFloats({2, 1}, c.keys);
  *request.mutable_inputs_v() = WireFloats({2, 1}, {1, 2});
  if (!c.bias.empty()) *request.mutable_bias() = WireFloats({2}, c.bias);
  if (!c.mask.empty()) *request.mutable_mask()->mutable_dense() = WireBools({2}, c.mask);
  if (c.softcap != 0) request.mutable_options()->set_softcap(c.softcap);
  return request;
}

class ExtremeScoresTest : public ::testing::TestWithParam<Case> {};

TEST_P(ExtremeScoresTest, FollowTheFormula) {
  auto running = RunningServer::Start();
  ASSERT_THAT(running, IsOk());
  v1::AttendRequest request = RequestOf(GetParam());
  for (const bool look : {false, true}) {
    request.mutable_options()->set_return_intermediates(look);
    const auto reply = (*running)->client().Attend(ClientRequest(request));
    ASSERT_THAT(reply, IsOk());
    EXPECT_THAT(reply->output, Near(Expected{{1, 1}, {GetParam().expected}, 1e-6}));
    EXPECT_EQ(reply->empty_rows, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, ExtremeScoresTest, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

// Scores that float32 cannot represent although all inputs are finite, and what the formula gives for them.
const Case kOverflows[] = {
    {"TheLargerOfTwo", 1e30f, {2e30f, 1e30f}, {}, {}, 0, 1},
    {"TheLargerOfTwoFarBelow", 1e30f, {-2e30f, -1e30f}, {}, {}, 0, 2},
    {"Alike", 3e38f, {3e38f, 3e38f}, {}, {}, 0, 1.5},
    {"AlikeAndHidden", 3e38f, {3e38f, 3e38f}, {}, {0, 1}, 0, 2},
    {"BelowAHiddenOne", 1e30f, {2e30f, 1e30f}, {-kInf, 0}, {}, 0, 2},
    {"ABiasThatDecides", 1e10f, {1e30f, 1e30f}, {-3e38f, 3e38f}, {}, 0, 2},
    {"LowestScoresAndBias", 1, {-3e38f, -2e38f}, {-3e38f, -3e38f}, {}, 0, 2},
    {"LargestScoresAndBias", 1, {3e38f, 3e38f}, {3e38f, 2e38f}, {}, 0, 1},
    {"UnderASoftcap", 3e38f, {3e38f, -3e38f}, {}, {}, 1, 1 + 1 / (1 + std::exp(2.0))},
};

class OverflowTest : public ::testing::TestWithParam<Case> {};

TEST_P(OverflowTest, FollowsTheFormula) {
  auto running = RunningServer::Start();
  ASSERT_THAT(running, IsOk());
  v1::AttendRequest request = RequestOf(GetParam());
  for (const auto compute_dtype : {v1::DATA_TYPE_FLOAT32, v1::DATA_TYPE_BFLOAT16}) {
    request.mutable_options()->set_compute_dtype(compute_dtype);
    for (const bool weights : {false, true}) {
      request.mutable_options()->set_return_attn_weights(weights);
      const auto reply = (*running)->client().Attend(ClientRequest(request));
      ASSERT_THAT(reply, IsOk());
      const double rounding = compute_dtype == v1::DATA_TYPE_BFLOAT16 ? 4e-3 : 1e-6;
      EXPECT_THAT(reply->output, Near(Expected{{1, 1}, {GetParam().expected}, rounding}));
      if (!weights) continue;
      EXPECT_THAT(*reply->attn_weights,
                  Near(Expected{{1, 1, 2}, {2 - GetParam().expected, GetParam().expected - 1}, 1e-6}));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, OverflowTest, ::testing::ValuesIn(kOverflows),
                         [](const auto& info) { return std::string(info.param.name); });

// The lowest float64 number hides a key as −∞ does, also if that leaves no key.
TEST(Float64BiasTest, HidesKeysBelowTheRangeOfFloat32) {
  auto running = RunningServer::Start();
  ASSERT_THAT(running, IsOk());
  v1::AttendRequest request;
  request.mutable_heads()->set_num_heads(1);
  request.mutable_heads()->set_axes(v1::HeadLayout::AXES_LENGTH_FEATURES);
  *request.mutable_inputs_q() = WireFloats({2, 1}, {1, 1});
  *request.mutable_inputs_k() = WireFloats({2, 1}, {5, 0});
  *request.mutable_inputs_v() = WireFloats({2, 1}, {1, 2});
  const std::vector<double> bias = {-1e300, 0, -1e300, -1e300};
  *request.mutable_bias() = WireTensor(v1::DATA_TYPE_FLOAT64, {2, 2},
                                       std::string(reinterpret_cast<const char*>(bias.data()), 4 * sizeof(double)));
  const auto reply = (*running)->client().Attend(ClientRequest(request));
  ASSERT_THAT(reply, IsOk());
  EXPECT_THAT(reply->output, Near(Expected{{2, 1}, {2, 1.5}}));
  EXPECT_EQ(reply->empty_rows, 1);
}

// Scores of any size and any mean, with which a softmax without range reduction is wrong. `error` is the effect on the
// output of rounding such scores to float32.
struct Range {
  const char* name;
  float scale;
  float first_bias;  // of the first half of the keys
  float last_bias;   // of the others
  double error;
};

const Range kRanges[] = {
    {"AllAlike", 0, 0, 0, 1e-5},
    {"Tiny", 1e-30f, 0, 0, 1e-5},
    {"Usual", 0.35f, 0, 0, 2e-5},
    {"Hundreds", 30, 0, 0, 1e-3},
    {"Thousands", 300, 0, 0, 1e-2},
    {"NegativeScale", -30, 0, 0, 1e-3},
    {"AroundAThousand", 1, 1000, 1000, 1e-3},
    {"AroundMinusAThousand", 1, -1000, -1000, 1e-3},
    {"AroundAMillionAndAlike", 0, 1e6f, 1e6f, 1e-5},
    {"HalfOfThemFarBelow", 1, 0, -200, 1e-4},
    {"HalfOfThemAtTheEdgeOfUnderflow", 0.5f, 0, -88, 1e-4},
    {"HalfOfThemFarAbove", 1, 0, 200, 1e-3},
    {"FarApart", 1, -1e30f, 1e30f, 1e-3},
};

class ScoreRangeTest : public ::testing::TestWithParam<Range> {};

// More than two tiles of queries, and keys for more than one bucket. Each query sees a different range of keys.
TEST_P(ScoreRangeTest, EqualsTheReferenceUpToTheRoundingOfTheScores) {
  auto running = RunningServer::Start();
  ASSERT_THAT(running, IsOk());
  constexpr int64_t kHeads = 2, kQ = 150, kKv = 600, kWidth = 8;
  std::mt19937 random(3);
  v1::AttendRequest request;
  request.mutable_heads()->set_num_heads(kHeads);
  request.mutable_heads()->set_axes(v1::HeadLayout::AXES_HEADS_LENGTH);
  *request.mutable_inputs_q() = WireFloats({kHeads, kQ, kWidth}, DrawNumbers(kHeads * kQ * kWidth, random));
  *request.mutable_inputs_k() = WireFloats({kHeads, kKv, kWidth}, DrawNumbers(kHeads * kKv * kWidth, random));
  *request.mutable_inputs_v() = WireFloats({kHeads, kKv, kWidth}, DrawNumbers(kHeads * kKv * kWidth, random));
  std::vector<float> bias(kKv, GetParam().first_bias);
  std::fill(bias.begin() + kKv / 2, bias.end(), GetParam().last_bias);
  if (bias.front() != 0 || bias.back() != 0) *request.mutable_bias() = WireFloats({kKv}, bias);
  request.mutable_options()->set_scale(GetParam().scale);
  for (const bool causal : {false, true}) {
    if (causal) request.mutable_mask()->mutable_causal()->set_corner(v1::Diagonal::CORNER_BOTTOM_RIGHT);
    for (const bool weights : {false, true}) {
      SCOPED_TRACE(absl::StrCat("causal ", causal, ", weights ", weights));
      request.mutable_options()->set_return_attn_weights(weights);
      request.mutable_options()->set_return_log_sum_exp(weights);
      const auto reply = (*running)->client().Attend(ClientRequest(request));
      ASSERT_THAT(reply, IsOk());
      ExpectAnswer(request, nullptr, *reply, {.abs = GetParam().error, .rel = 1e-5});
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranges, ScoreRangeTest, ::testing::ValuesIn(kRanges),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace attention::test
