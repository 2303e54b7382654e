// A request gives the same bits alone, among others, and on any number of threads.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/testing/matchers.h"
#include "tests/testing/requests.h"
#include "tests/testing/running_server.h"
#include "tests/testing/together.h"
#include "tests/testing/wire.h"

namespace attention::test {
namespace {

// One request and 32 others.
constexpr int kRequests = 33;

struct Case {
  const char* name;
  server::LayerShape layer;
  RandomLimits limits;
};

const Case kCases[] = {
    {"SelfAttention", {32, 32, 32, 4, 8, 32}, {}},
    {"ThreeWidths", {24, 20, 28, 3, 7, 10}, {}},
    {"HeadDimOne", {6, 6, 6, 5, 1, 3}, {}},
    {"WideHeads", {48, 48, 48, 2, 64, 40}, {.max_q_length = 150, .max_kv_length = 700}},
    {"SingleTokens", {16, 16, 16, 2, 16, 16}, {.max_q_length = 1, .max_kv_length = 40}},
};

// Everything in a reply that is computed.
struct Bits {
  std::string output, attn_weights, query, key, value, scores, context;

  friend bool operator==(const Bits&, const Bits&) = default;
};

Bits BitsOf(const AttendReply& reply) {
  Bits bits;
  bits.output = reply.output.bytes;
  if (reply.attn_weights.has_value()) bits.attn_weights = reply.attn_weights->bytes;
  if (reply.intermediates.has_value()) {
    bits.query = reply.intermediates->query.bytes;
    bits.key = reply.intermediates->key.bytes;
    bits.value = reply.intermediates->value.bytes;
    bits.scores = reply.intermediates->scores.bytes;
    bits.context = reply.intermediates->context.bytes;
  }
  return bits;
}

class BatchInvarianceTest : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    layer_ = RandomLayer(GetParam().layer, 7);
    std::mt19937 random(20);
    for (int i = 0; i < kRequests; ++i) {
      calls_.push_back(DrawCall(layer_.shape, GetParam().limits, random));
      v1::AttendRequest& request = calls_.back().request;
      request.set_weight_set("w");
      // Every seventh is looked at line by line.
      request.mutable_options()->set_return_intermediates(i % 7 == 0);
      request.mutable_options()->set_return_attn_weights(i % 7 == 0);
    }
  }

  std::unique_ptr<RunningServer> Start(server::Config config, int threads) {
    config.threads = threads;
    auto running = RunningServer::Start({.checkpoints = {{"w", ToParameters(layer_)}}, .config = config});
    EXPECT_THAT(running, IsOk());
    return running.ok() ? *std::move(running) : nullptr;
  }

  std::vector<AttendReply> Alone(int threads) {
    std::vector<AttendReply> replies;
    const auto running = Start({}, threads);
    if (running == nullptr) return replies;
    for (const RandomCall& call : calls_) {
      auto reply = running->client().Attend(ClientRequest(call.request));
      EXPECT_THAT(reply, IsOk());
      if (!reply.ok()) break;
      EXPECT_EQ(reply->timing.batch_requests, 1);
      replies.push_back(*std::move(reply));
    }
    return replies;
  }

  // All in one batch, the last request first if `backwards`; replies in the order of calls_.
  std::vector<AttendReply> Together(int threads, bool backwards) {
    std::vector<v1::AttendRequest> requests;
    for (const RandomCall& call : calls_) requests.push_back(call.request);
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
    ASSERT_EQ(some.size(), calls_.size());
    ASSERT_EQ(others.size(), calls_.size());
    for (size_t i = 0; i < some.size(); ++i) {
      EXPECT_TRUE(BitsOf(some[i]) == BitsOf(others[i])) << "request " << i;
    }
  }

  server::LayerParameters layer_;
  std::vector<RandomCall> calls_;
};

TEST_P(BatchInvarianceTest, GivesTheSameBitsAloneInABatchAndOnAnyNumberOfThreads) {
  const std::vector<AttendReply> alone = Alone(1);
  ExpectSameBits(alone, Alone(2));
  ExpectSameBits(alone, Together(1, false));
  ExpectSameBits(alone, Together(2, false));
  ExpectSameBits(alone, Together(2, true));
}

void ExpectNear(const Tensor& tensor, const std::vector<double>& wanted) {
  EXPECT_THAT(tensor, Near(Expected{tensor.shape, wanted, 2e-5, 1e-5}));
}

TEST_P(BatchInvarianceTest, AgreesWithTheReferenceInFloat64) {
  const std::vector<AttendReply> replies = Together(2, false);
  ASSERT_EQ(replies.size(), calls_.size());
  for (size_t i = 0; i < replies.size(); ++i) {
    SCOPED_TRACE(i);
    const ReferenceOutputs wanted = ReferenceAttention(layer_, calls_[i].reference);
    std::vector<int64_t> shape(calls_[i].request.inputs_q().shape().begin(),
                               calls_[i].request.inputs_q().shape().end());
    shape.back() = layer_.shape.out_features;
    EXPECT_THAT(replies[i].output, Near(Expected{shape, wanted.output, 2e-5, 1e-5}));
    ASSERT_EQ(replies[i].intermediates.has_value(), i % 7 == 0);
    ASSERT_EQ(replies[i].attn_weights.has_value(), i % 7 == 0);
    if (i % 7 != 0) continue;
    ExpectNear(*replies[i].attn_weights, wanted.attn_weights);
    ExpectNear(replies[i].intermediates->query, wanted.query);
    ExpectNear(replies[i].intermediates->key, wanted.key);
    ExpectNear(replies[i].intermediates->value, wanted.value);
    ExpectNear(replies[i].intermediates->scores, wanted.scores);
    ExpectNear(replies[i].intermediates->context, wanted.context);
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, BatchInvarianceTest, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace attention::test
