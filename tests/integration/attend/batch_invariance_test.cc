// A request gives the same bits alone, in a batch with others, and on any number of threads, with any options. The
// results are close to the reference.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "tests/testing/matchers.h"
#include "tests/testing/reference/random_masks.h"
#include "tests/testing/reference/reference_checks.h"
#include "tests/testing/server/requests.h"
#include "tests/testing/server/running_server.h"
#include "tests/testing/server/together.h"
#include "tests/testing/server/wire.h"

namespace attention::test {
namespace {

// One request and 32 others.
constexpr int kRequests = 33;

// A layer, or a head layout without a layer.
struct Case {
  const char* name;
  std::optional<server::LayerShape> layer;
  server::HeadShape heads;
  RandomLimits limits = {};
  bool normalize_qk = false;
  v1::DataType compute_dtype = v1::DATA_TYPE_UNSPECIFIED;
  Tolerance tolerance = {};
};

Case WithLayer(const char* name, const server::LayerShape& layer, const RandomLimits& limits = {}) {
  return {.name = name, .layer = layer, .heads = layer.heads, .limits = limits};
}

Case WithoutLayer(const char* name, const server::HeadShape& heads, const RandomLimits& limits = {}) {
  return {.name = name, .layer = std::nullopt, .heads = heads, .limits = limits};
}

Case Normalized(Case of) {
  of.normalize_qk = true;
  return of;
}

// Between float32 and float64 an operand may round to either of two neighbouring bfloat16 numbers, which differ by
// 1/256.
Case InBFloat16(Case of) {
  of.compute_dtype = v1::DATA_TYPE_BFLOAT16;
  of.tolerance = {2e-2, 1e-2};
  return of;
}

const Case kCases[] = {
    WithLayer("SelfAttention", {32, 32, 32, {4, 4, 8, 8}, 32}),
    WithLayer("ThreeWidths", {24, 20, 28, {3, 3, 7, 7}, 10}),
    WithLayer("HeadDimOne", {6, 6, 6, {5, 5, 1, 1}, 3}),
    WithLayer("WideHeads", {48, 48, 48, {2, 2, 64, 64}, 40}, {.max_q_length = 150, .max_kv_length = 700}),
    WithLayer("SingleTokens", {16, 16, 16, {2, 2, 16, 16}, 16}, {.max_q_length = 1, .max_kv_length = 40}),
    WithLayer("GroupedHeads", {24, 24, 24, {6, 2, 8, 8}, 24}),
    WithLayer("MultiQuery", {20, 20, 20, {5, 1, 9, 4}, 20}),
    Normalized(WithLayer("NormalizedQueriesAndKeys", {24, 24, 12, {4, 2, 6, 10}, 24})),
    InBFloat16(WithLayer("BFloat16", {32, 32, 32, {4, 2, 8, 12}, 32})),
    WithoutLayer("WithoutProjections", {4, 4, 8, 8}),
    WithoutLayer("WithoutProjectionsGrouped", {6, 3, 5, 11}),
    WithoutLayer("WithoutProjectionsLong", {2, 1, 32, 32}, {.max_q_length = 150, .max_kv_length = 700}),
    InBFloat16(WithoutLayer("WithoutProjectionsBFloat16", {4, 2, 16, 8})),
};

std::string BytesOf(const std::optional<Tensor>& tensor) { return tensor.has_value() ? tensor->bytes : ""; }

// All computed tensors of a reply.
std::vector<std::string> BitsOf(const AttendReply& reply) {
  std::vector<std::string> bits = {reply.output.bytes, std::to_string(reply.empty_rows), BytesOf(reply.attn_weights),
                                   BytesOf(reply.mean_attn_weights), BytesOf(reply.log_sum_exp)};
  if (reply.top_keys.has_value()) {
    bits.push_back(reply.top_keys->keys.bytes);
    bits.push_back(reply.top_keys->weights.bytes);
  }
  if (reply.intermediates.has_value()) {
    const Intermediates& lines = *reply.intermediates;
    for (const auto& line : {lines.query, lines.key, lines.value, lines.capped_scores}) bits.push_back(BytesOf(line));
    for (const auto& line : {lines.scores, lines.masked_scores, lines.context}) bits.push_back(line.bytes);
  }
  return bits;
}

class BatchInvarianceTest : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (GetParam().layer.has_value()) layer_ = RandomLayer(*GetParam().layer, 7);
    if (GetParam().normalize_qk) layer_ = WithLayerNorm(*layer_, 8);
    std::mt19937 random(20);
    for (int i = 0; i < kRequests; ++i) requests_.push_back(Draw(i, random));
  }

  v1::AttendRequest Draw(int number, std::mt19937& random) const {
    v1::AttendRequest request = layer_.has_value() ? DrawRequest(layer_->shape, GetParam().limits, random)
                                                   : DrawRequest(GetParam().heads, GetParam().limits, random);
    if (layer_.has_value()) request.set_weight_set("w");
    AddRandomParts(GetParam().heads, random, request);
    v1::AttendOptions& options = *request.mutable_options();
    options.set_compute_dtype(GetParam().compute_dtype);
    // Every seventh request returns the intermediates; others return some optional results.
    if (number % 7 == 0) AskForEverything(GetParam().heads, request);
    options.set_return_attn_weights(number % 5 == 0);
    if (number % 4 == 0) options.set_top_k(1);
    if (number % 3 == 0) options.set_return_log_sum_exp(true);
    if (number % 11 == 0) options.set_return_mean_attn_weights(true);
    return request;
  }

  std::unique_ptr<RunningServer> Start(server::Config config, int threads) {
    config.threads = threads;
    std::map<std::string, Parameters> checkpoints;
    if (layer_.has_value()) checkpoints["w"] = ToParameters(*layer_);
    auto running = RunningServer::Start({.checkpoints = checkpoints, .config = config});
    EXPECT_THAT(running, IsOk());
    return running.ok() ? *std::move(running) : nullptr;
  }

  std::vector<AttendReply> Alone(int threads) {
    std::vector<AttendReply> replies;
    const auto running = Start({}, threads);
    if (running == nullptr) return replies;
    for (const v1::AttendRequest& request : requests_) {
      auto reply = running->client().Attend(ClientRequest(request));
      EXPECT_THAT(reply, IsOk());
      if (!reply.ok()) break;
      EXPECT_EQ(reply->timing.batch_requests, 1);
      replies.push_back(*std::move(reply));
    }
    return replies;
  }

  // Sends all requests as one batch, in reverse order if `backwards`. Returns the replies in the order of requests_.
  std::vector<AttendReply> Together(int threads, bool backwards) {
    std::vector<v1::AttendRequest> requests = requests_;
    if (backwards) std::reverse(requests.begin(), requests.end());
    std::vector<AttendReply> replies;
    const auto running = Start(SharingConfig(kRequests), threads);
    if (running == nullptr) return replies;
    for (auto& reply : AttendTogether(running->client(), requests)) {
      EXPECT_THAT(reply, IsOk());
      if (!reply.ok()) return replies;
      EXPECT_EQ(reply->timing.batch_requests, kRequests);
      replies.push_back(*std::move(reply));
    }
    if (backwards) std::reverse(replies.begin(), replies.end());
    return replies;
  }

  void ExpectSameBits(const std::vector<AttendReply>& some, const std::vector<AttendReply>& others) {
    ASSERT_EQ(some.size(), requests_.size());
    ASSERT_EQ(others.size(), requests_.size());
    for (size_t i = 0; i < some.size(); ++i) {
      EXPECT_TRUE(BitsOf(some[i]) == BitsOf(others[i])) << "request " << i;
    }
  }

  std::optional<server::LayerParameters> layer_;
  std::vector<v1::AttendRequest> requests_;
};

TEST_P(BatchInvarianceTest, GivesTheSameBitsAloneInABatchAndOnAnyNumberOfThreads) {
  const std::vector<AttendReply> alone = Alone(1);
  ExpectSameBits(alone, Alone(2));
  ExpectSameBits(alone, Together(1, false));
  ExpectSameBits(alone, Together(2, false));
  ExpectSameBits(alone, Together(2, true));
}

TEST_P(BatchInvarianceTest, AgreesWithTheReferenceInFloat64) {
  const std::vector<AttendReply> replies = Together(2, false);
  ASSERT_EQ(replies.size(), requests_.size());
  for (size_t i = 0; i < replies.size(); ++i) {
    SCOPED_TRACE(i);
    ExpectAnswer(requests_[i], layer_.has_value() ? &*layer_ : nullptr, replies[i], GetParam().tolerance);
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, BatchInvarianceTest, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace attention::test
