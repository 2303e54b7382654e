// Every way to hide keys, alone and combined with every other one: random requests compared with the float64 reference,
// which uses one dense mask.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/testing/matchers.h"
#include "tests/testing/reference/random_masks.h"
#include "tests/testing/reference/reference_checks.h"
#include "tests/testing/reference/reference_request.h"
#include "tests/testing/server/requests.h"
#include "tests/testing/server/running_server.h"
#include "tests/testing/server/wire.h"

namespace attention::test {
namespace {

using Parts = std::vector<MaskPart>;

std::vector<Parts> OnePartAndTwoParts() {
  std::vector<Parts> result;
  for (size_t i = 0; i < kMaskParts.size(); ++i) {
    result.push_back({kMaskParts[i]});
    for (size_t j = i + 1; j < kMaskParts.size(); ++j) {
      if (!Exclude(kMaskParts[i], kMaskParts[j])) result.push_back({kMaskParts[i], kMaskParts[j]});
    }
  }
  return result;
}

std::string NameOfParts(const Parts& parts) {
  std::string name = NameOf(parts[0]);
  if (parts.size() > 1) absl::StrAppend(&name, "And", NameOf(parts[1]));
  return name;
}

// The layers of the weight sets "grouped" and "plain".
server::LayerParameters GroupedLayer() { return WithLayerNorm(RandomLayer({12, 10, 14, {4, 2, 5, 7}, 6}, 3), 4); }
server::LayerParameters PlainLayer() { return RandomLayer({8, 8, 8, {2, 2, 8, 8}, 8}, 5); }

class MaskPropertiesTest : public ::testing::TestWithParam<Parts> {
 protected:
  static void SetUpTestSuite() {
    auto running = RunningServer::Start(
        {.checkpoints = {{"grouped", ToParameters(GroupedLayer())}, {"plain", ToParameters(PlainLayer())}}});
    ASSERT_THAT(running, IsOk());
    running_ = running->release();
  }

  static void TearDownTestSuite() {
    delete running_;
    running_ = nullptr;
  }

  void SetUp() override { ASSERT_NE(running_, nullptr); }

  // Masks `request`, sets options depending on `round`, sends it and compares the reply. `layer` is null without a
  // weight set.
  void ExpectReference(v1::AttendRequest request, const server::LayerParameters* layer, int round) {
    const server::HeadShape heads = layer == nullptr ? HeadsOf(request) : layer->shape.heads;
    for (MaskPart part : GetParam()) AddMaskPart(part, heads, random_, request);
    v1::AttendOptions& options = *request.mutable_options();
    options.set_empty_rows(round % 2 == 0 ? v1::EMPTY_ROWS_UNIFORM : v1::EMPTY_ROWS_ZERO);
    options.set_return_attn_weights(round % 3 == 1);
    if (round % 3 == 2) AskForEverything(heads, request);
    const auto reply = running_->client().Attend(ClientRequest(request));
    ASSERT_THAT(reply, IsOk());
    ExpectAnswer(request, layer, *reply);
  }

  static RunningServer* running_;
  std::mt19937 random_{2024};
};

RunningServer* MaskPropertiesTest::running_ = nullptr;

// The rounds request the output only, the weights too, or everything, each with both rules for empty rows.
constexpr int kRounds = 6;

TEST_P(MaskPropertiesTest, EqualsTheDenseMaskOnALayer) {
  const server::LayerParameters layers[] = {GroupedLayer(), PlainLayer()};
  for (int round = 0; round < kRounds; ++round) {
    for (const server::LayerParameters& layer : layers) {
      v1::AttendRequest request = DrawRequest(layer.shape, {}, random_);
      request.set_weight_set(&layer == layers ? "grouped" : "plain");
      SCOPED_TRACE(absl::StrCat("round ", round, " of ", request.weight_set()));
      ASSERT_NO_FATAL_FAILURE(ExpectReference(request, &layer, round));
    }
  }
}

TEST_P(MaskPropertiesTest, EqualsTheDenseMaskWithoutProjections) {
  for (int round = 0; round < kRounds; ++round) {
    for (const server::HeadShape& heads : {server::HeadShape{4, 2, 8, 6}, server::HeadShape{3, 3, 4, 4}}) {
      SCOPED_TRACE(absl::StrCat("round ", round, ", ", heads.num_heads, " heads"));
      ASSERT_NO_FATAL_FAILURE(ExpectReference(DrawRequest(heads, {}, random_), nullptr, round));
    }
  }
}

// Many tiles of queries and keys, some of which are completely masked.
TEST_P(MaskPropertiesTest, EqualsTheDenseMaskOnLongSequences) {
  for (int round = 0; round < 2; ++round) {
    SCOPED_TRACE(absl::StrCat("round ", round));
    v1::AttendRequest request;
    request.mutable_heads()->set_num_heads(2);
    request.mutable_heads()->set_axes(v1::HeadLayout::AXES_HEADS_LENGTH);
    *request.mutable_inputs_q() = WireFloats({2, 2, 300, 4}, DrawNumbers(2 * 2 * 300 * 4, random_));
    *request.mutable_inputs_k() = WireFloats({2, 2, 700, 4}, DrawNumbers(2 * 2 * 700 * 4, random_));
    ASSERT_NO_FATAL_FAILURE(ExpectReference(request, nullptr, round));
  }
}

INSTANTIATE_TEST_SUITE_P(Parts, MaskPropertiesTest, ::testing::ValuesIn(OnePartAndTwoParts()),
                         [](const auto& info) { return NameOfParts(info.param); });

}  // namespace
}  // namespace attention::test
