// The optional results of a reply: the largest weights, their mean over the heads, the log-sum-exp.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/testing/matchers.h"
#include "tests/testing/reference/random_masks.h"
#include "tests/testing/reference/reference_checks.h"
#include "tests/testing/server/requests.h"
#include "tests/testing/server/running_server.h"
#include "tests/testing/server/wire.h"

namespace attention::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

// One head with head_dim 1: a score is query · key.
v1::AttendRequest Ask(const std::vector<float>& query, const std::vector<float>& key) {
  v1::AttendRequest request;
  request.mutable_heads()->set_num_heads(1);
  request.mutable_heads()->set_axes(v1::HeadLayout::AXES_LENGTH_HEADS);
  *request.mutable_inputs_q() = WireFloats({static_cast<int64_t>(query.size()), 1, 1}, query);
  *request.mutable_inputs_k() = WireFloats({static_cast<int64_t>(key.size()), 1, 1}, key);
  return request;
}

class AttendAnswersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto running = RunningServer::Start({.checkpoints = {{"w", ToParameters(RandomLayer(kLayer, 3))}}});
    ASSERT_THAT(running, IsOk());
    running_ = *std::move(running);
  }

  AttendReply Attend(const v1::AttendRequest& request) {
    auto reply = running_->client().Attend(ClientRequest(request));
    EXPECT_THAT(reply, IsOk());
    return reply.ok() ? *std::move(reply) : AttendReply();
  }

  static constexpr server::LayerShape kLayer = {12, 8, 10, {4, 2, 5, 7}, 6};
  std::unique_ptr<RunningServer> running_;
  std::mt19937 random_{31};
};

TEST_F(AttendAnswersTest, EqualWeightsAreOrderedByIndex) {
  v1::AttendRequest request = Ask({1, -1}, {0, 1, 1, 0, 1});
  request.mutable_options()->set_top_k(4);
  const AttendReply reply = Attend(request);
  EXPECT_THAT(reply.top_keys->keys.shape, ElementsAre(1, 2, 4));
  EXPECT_THAT(reply.top_keys->keys.Integers(), ElementsAre(1, 2, 4, 0, 0, 3, 1, 2));
}

TEST_F(AttendAnswersTest, AThousandEqualWeightsAreOrderedByIndex) {
  v1::AttendRequest request = Ask({1}, std::vector<float>(1000, 2));
  request.mutable_options()->set_top_k(300);
  std::vector<int64_t> expected(300);
  for (size_t i = 0; i < expected.size(); ++i) expected[i] = static_cast<int64_t>(i);
  EXPECT_THAT(Attend(request).top_keys->keys.Integers(), ElementsAreArray(expected));
}

// Hidden keys and keys whose float32 weight is 0 are not listed.
TEST_F(AttendAnswersTest, UnusedTopKeysAreMinusOne) {
  v1::AttendRequest request = Ask({1}, {0, 1, -1000, 5});
  request.mutable_mask()->add_kv_lengths(3);
  request.mutable_options()->set_top_k(4);
  const AttendReply reply = Attend(request);
  EXPECT_THAT(reply.top_keys->keys.Integers(), ElementsAre(1, 0, -1, -1));
  const double weight = 1 / (1 + std::exp(-1.0));
  EXPECT_THAT(reply.top_keys->weights, Near(Expected{{1, 1, 4}, {weight, 1 - weight, 0, 0}, 1e-6}));
}

TEST_F(AttendAnswersTest, TopKIsLimitedByKvLength) {
  v1::AttendRequest request = Ask({1}, {0, 1});
  request.mutable_options()->set_top_k(3);
  EXPECT_THAT(running_->client().Attend(ClientRequest(request)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("options.top_k"), HasSubstr("3"), HasSubstr("kv_length 2"))));
}

// The top keys are those of the sorted weights, whether or not the weights are requested too.
TEST_F(AttendAnswersTest, TopKeysAreThoseOfTheWeights) {
  for (int round = 0; round < 40; ++round) {
    SCOPED_TRACE(round);
    v1::AttendRequest request = DrawRequest(kLayer, {}, random_);
    request.set_weight_set("w");
    AddRandomParts(kLayer.heads, random_, request);
    v1::AttendOptions& options = *request.mutable_options();
    options.set_top_k(DrawInteger(1, request.inputs_k().shape(request.inputs_k().shape_size() - 2), random_));
    const AttendReply alone = Attend(request);
    options.set_return_attn_weights(true);
    const AttendReply both = Attend(request);
    ASSERT_NO_FATAL_FAILURE(ExpectTopKeysOfWeights(request, both));
    EXPECT_THAT(alone.top_keys->keys, SameBits(both.top_keys->keys));
    EXPECT_THAT(alone.top_keys->weights, SameBits(both.top_keys->weights));
  }
}

// Computed by hand: head 0 has the weights 1/2 and 1/2, head 1 sees only the second key.
TEST_F(AttendAnswersTest, MeanWeightsAreAveragedOverTheHeads) {
  v1::AttendRequest request = Ask({1}, {0, 0});
  request.mutable_heads()->set_num_heads(2);
  request.mutable_heads()->set_num_kv_heads(1);
  *request.mutable_inputs_q() = WireFloats({1, 2, 1}, {1, 1});
  *request.mutable_mask()->mutable_dense() = WireBools({2, 1, 2}, {1, 1, 0, 1});
  request.mutable_options()->set_return_mean_attn_weights(true);
  EXPECT_THAT(*Attend(request).mean_attn_weights, Near(Expected{{1, 2}, {0.25, 0.75}}));
}

// ln(e^0 + e^ln 3) = ln 4; −∞ for an empty row, under both rules.
TEST_F(AttendAnswersTest, LogSumExpCoversTheVisibleScores) {
  v1::AttendRequest request = Ask({1, 1}, {0, std::log(3.0f), 50});
  *request.mutable_mask()->mutable_dense() = WireBools({2, 3}, {1, 1, 0, 0, 0, 0});
  request.mutable_options()->set_return_log_sum_exp(true);
  const double infinity = std::numeric_limits<double>::infinity();
  const Expected expected = {{1, 2}, {std::log(4.0), -infinity}, 1e-6};
  EXPECT_THAT(*Attend(request).log_sum_exp, Near(expected));
  request.mutable_options()->set_empty_rows(v1::EMPTY_ROWS_ZERO);
  EXPECT_THAT(*Attend(request).log_sum_exp, Near(expected));
}

// Optional results may be computed in another way, but must not change any number.
TEST_F(AttendAnswersTest, OptionalResultsChangeNoNumber) {
  const server::HeadShape heads = {4, 2, 5, 7};
  for (int round = 0; round < 20; ++round) {
    SCOPED_TRACE(round);
    v1::AttendRequest request = DrawRequest(heads, {}, random_);
    AddRandomParts(heads, random_, request);
    const Tensor plain = Attend(request).output;
    const Expected expected = {plain.shape, Values(plain), 2e-6, 2e-6};
    request.mutable_options()->set_return_mean_attn_weights(true);
    EXPECT_THAT(Attend(request).output, Near(expected));
    request.mutable_options()->set_return_log_sum_exp(true);
    EXPECT_THAT(Attend(request).output, Near(expected));
    AskForEverything(heads, request);
    EXPECT_THAT(Attend(request).output, Near(expected));
  }
}

// Keys [begin, end) of [batch, kv_length, heads, width].
v1::Tensor Slice(const v1::Tensor& tensor, int64_t begin, int64_t end) {
  const std::vector<float> numbers = ClientTensor(tensor).Floats();
  const int64_t row = tensor.shape(2) * tensor.shape(3);
  std::vector<float> result;
  for (int64_t b = 0; b < tensor.shape(0); ++b) {
    const auto sequence = numbers.begin() + b * tensor.shape(1) * row;
    result.insert(result.end(), sequence + begin * row, sequence + end * row);
  }
  return WireFloats({tensor.shape(0), end - begin, tensor.shape(2), tensor.shape(3)}, result);
}

// Splits the keys of a causal mask, so that the first queries see no key of the second part. The merged parts equal the
// result for all keys.
TEST_F(AttendAnswersTest, PartsOfTheKeysMergeByLogSumExp) {
  constexpr int64_t kQ = 60, kKv = 100, kSplit = 45, kHeads = 4, kWidth = 6;
  v1::AttendRequest whole;
  whole.mutable_heads()->set_num_heads(kHeads);
  whole.mutable_heads()->set_num_kv_heads(2);
  whole.mutable_heads()->set_axes(v1::HeadLayout::AXES_LENGTH_HEADS);
  *whole.mutable_inputs_q() = WireFloats({2, kQ, kHeads, kWidth}, DrawNumbers(2 * kQ * kHeads * kWidth, random_));
  *whole.mutable_inputs_k() = WireFloats({2, kKv, 2, kWidth}, DrawNumbers(2 * kKv * 2 * kWidth, random_));
  *whole.mutable_inputs_v() = WireFloats({2, kKv, 2, kWidth}, DrawNumbers(2 * kKv * 2 * kWidth, random_));
  whole.mutable_mask()->mutable_causal()->set_offset(0);
  whole.mutable_options()->set_empty_rows(v1::EMPTY_ROWS_ZERO);
  whole.mutable_options()->set_return_log_sum_exp(true);
  v1::AttendRequest parts[] = {whole, whole};
  for (int part = 0; part < 2; ++part) {
    const int64_t begin = part == 0 ? 0 : kSplit;
    const int64_t end = part == 0 ? kSplit : kKv;
    *parts[part].mutable_inputs_k() = Slice(whole.inputs_k(), begin, end);
    *parts[part].mutable_inputs_v() = Slice(whole.inputs_v(), begin, end);
    parts[part].mutable_mask()->mutable_causal()->set_offset(-begin);
  }
  const AttendReply first = Attend(parts[0]);
  const AttendReply second = Attend(parts[1]);
  EXPECT_EQ(second.empty_rows, 2 * kHeads * kSplit);
  const AttendReply expected = Attend(whole);
  const std::vector<double> a = Values(first.output), b = Values(second.output);
  const std::vector<double> lse_a = Values(*first.log_sum_exp), lse_b = Values(*second.log_sum_exp);
  Expected merged = {expected.output.shape, {}, 1e-5, 1e-5};
  for (size_t i = 0; i < a.size(); ++i) {
    const size_t head = i / kWidth % kHeads;
    const size_t query = i / kWidth / kHeads % kQ;
    const size_t row = (i / kWidth / kHeads / kQ * kHeads + head) * kQ + query;
    const double w = 1 / (1 + std::exp(lse_b[row] - lse_a[row]));
    merged.values.push_back(a[i] * w + b[i] * (1 - w));
  }
  EXPECT_THAT(expected.output, Near(merged));
}

}  // namespace
}  // namespace attention::test
