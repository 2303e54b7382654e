#include "server/engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/testing/files/weights.h"
#include "tests/testing/matchers.h"
#include "tests/testing/reference/reference_attention.h"
#include "tests/unit/engine/owned_call.h"

namespace attention::server {
namespace {

using test::IsOk;

class EngineTest : public ::testing::Test {
 protected:
  void Use(const LayerShape& shape) {
    parameters_ = test::RandomLayer(shape, 7);
    auto layer = Layer::Pack(parameters_);
    ASSERT_THAT(layer, IsOk());
    layer_ = *std::move(layer);
  }

  static std::unique_ptr<Engine> MakeEngine(int num_threads) {
    auto engine = Engine::Create(num_threads);
    EXPECT_THAT(engine, IsOk());
    return *std::move(engine);
  }

  void Compute(Engine& engine, const std::vector<std::unique_ptr<OwnedCall>>& calls) {
    std::vector<const AttentionCall*> pointers;
    for (const auto& call : calls) pointers.push_back(&call->call);
    ASSERT_THAT(engine.Compute(layer_.get(), pointers), IsOk());
  }

  void ComputeAlone(Engine& engine, const OwnedCall& call) {
    const AttentionCall* pointer = &call.call;
    ASSERT_THAT(engine.Compute(layer_.get(), {&pointer, 1}), IsOk());
  }

  void ExpectNearReference(const OwnedCall& call, double tolerance) {
    const std::vector<double> expected = test::ReferenceAttention(parameters_, call.Reference()).output;
    ASSERT_EQ(call.output.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i)
      ASSERT_NEAR(call.output[i], expected[i], tolerance) << "at element " << i;
  }

  LayerParameters parameters_;
  std::shared_ptr<const Layer> layer_;
};

TEST_F(EngineTest, AgreesWithTheReferenceForEveryInputSharing) {
  Use({24, 24, 24, {3, 3, 8, 8}, 10});
  const auto engine = MakeEngine(2);
  for (const Sizes& sizes : {Sizes{1, 1, 1},
                             {2, 5, 7},
                             {3, 64, 16},
                             {2, 65, 130, false, true},
                             {4, 33, 33, true},
                             {1, 100, 100, true, true},
                             {2, 3, 200, false, true, true},
                             {1, 1100, 40},
                             {2, 1, 600}}) {
    OwnedCall call({24, 24, 24, {3, 3, 8, 8}, 10}, sizes, 3);
    ComputeAlone(*engine, call);
    SCOPED_TRACE(testing::Message() << sizes.batch << " × " << sizes.q_length << " × " << sizes.kv_length);
    ExpectNearReference(call, 1e-5);
  }
}

TEST_F(EngineTest, GivesTheSameBitsAloneInABatchAndOnAnyNumberOfThreads) {
  const LayerShape shape{48, 48, 48, {4, 4, 12, 12}, 48};
  Use(shape);
  const auto one = MakeEngine(1);
  const auto two = MakeEngine(2);
  std::mt19937 random(11);
  std::vector<std::unique_ptr<OwnedCall>> calls;
  for (int i = 0; i < 33; ++i) {
    const auto length = [&] { return static_cast<int64_t>(1 + random() % 150); };
    const int64_t q_length = length();
    const bool self = random() % 2 == 0;
    const Sizes sizes{static_cast<int64_t>(1 + random() % 3),
                      q_length,
                      self ? q_length : length(),
                      self,
                      random() % 2 == 0,
                      !self && random() % 2 == 0};
    calls.push_back(std::make_unique<OwnedCall>(shape, sizes, i));
    AttentionCall& call = calls.back()->call;
    if (i % 3 == 0) call.options.compute_dtype = DType::kBFloat16;
    if (i % 4 == 0) call.options.softcap = 2;
    if (i % 2 == 0) {
      for (int64_t row = 0; row < sizes.batch; ++row) {
        call.mask.limits.push_back({.q_length = static_cast<int64_t>(random() % (sizes.q_length + 1)),
                                    .kv_length = static_cast<int64_t>(random() % (sizes.kv_length + 1)),
                                    .first_offset = i % 8 == 0 ? -5 : -kUnbounded,
                                    .last_offset = i % 6 == 0 ? 1 : kUnbounded});
      }
    }
  }
  std::vector<std::vector<float>> alone;
  for (const auto& call : calls) {
    ComputeAlone(*one, *call);
    alone.push_back(call->output);
  }
  for (Engine* engine : {one.get(), two.get()}) {
    for (const auto& call : calls) std::fill(call->output.begin(), call->output.end(), 0.0f);
    Compute(*engine, calls);
    for (size_t i = 0; i < calls.size(); ++i) {
      ASSERT_EQ(std::memcmp(calls[i]->output.data(), alone[i].data(), alone[i].size() * sizeof(float)), 0)
          << "call " << i << (engine == one.get() ? " on one thread" : " on two threads");
    }
  }
}

TEST_F(EngineTest, ReturnsEveryLineOfTheFormula) {
  const LayerShape shape{10, 10, 10, {2, 2, 5, 5}, 6};
  Use(shape);
  OwnedCall call(shape, {2, 3, 4, false, true}, 5);
  const auto expected = test::ReferenceAttention(parameters_, call.Reference());
  const auto sized = [](const std::vector<double>& like) { return std::vector<float>(like.size()); };
  std::vector<float> query = sized(expected.query), key = sized(expected.key), value = sized(expected.value);
  std::vector<float> scores = sized(expected.scores), weights = sized(expected.attn_weights),
                     context = sized(expected.context);
  call.call.options.compute_hidden = true;
  call.call.extra_outputs = {.query = query.data(),
                             .key = key.data(),
                             .value = value.data(),
                             .scores = scores.data(),
                             .attn_weights = weights.data(),
                             .context = context.data()};
  ComputeAlone(*MakeEngine(2), call);
  const auto expect_near = [](const char* name, const std::vector<float>& actual, const std::vector<double>& expected) {
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(actual[i], expected[i], 1e-5) << name << " at element " << i;
  };
  expect_near("query", query, expected.query);
  expect_near("key", key, expected.key);
  expect_near("value", value, expected.value);
  expect_near("scores", scores, expected.scores);
  expect_near("attn_weights", weights, expected.attn_weights);
  expect_near("context", context, expected.context);
}

// The exact value 4 sigmoid(6) + 3 (1 - sigmoid(6)), rounded once. With a float32 sum in the softmax the result would
// be 3.9975276.
TEST_F(EngineTest, ComputesTheExampleOfReadmeToTheLastBit) {
  parameters_ = test::OnesLayer();
  auto layer = Layer::Pack(parameters_);
  ASSERT_THAT(layer, IsOk());
  layer_ = *std::move(layer);
  OwnedCall call(parameters_.shape, {1, 2, 2}, 1);
  call.q = {1, 1, 1, 1, 1, 1};
  call.k = {2, 1, 1, 1, 1, 1};
  ComputeAlone(*MakeEngine(1), call);
  const double weight = 1 / (1 + std::exp(-6.0));
  EXPECT_THAT(call.output, testing::Each(static_cast<float>(3 + weight)));
}

// 4 and 3 are weighted with sigmoid(6) and 1 − sigmoid(6), rounded to bfloat16: 0.99609375 and 0.0024719238.
TEST_F(EngineTest, RoundsTheWeightsToBFloat16) {
  parameters_ = test::OnesLayer();
  auto layer = Layer::Pack(parameters_);
  ASSERT_THAT(layer, IsOk());
  layer_ = *std::move(layer);
  OwnedCall call(parameters_.shape, {1, 2, 2}, 1);
  call.q = {1, 1, 1, 1, 1, 1};
  call.k = {2, 1, 1, 1, 1, 1};
  call.call.options.compute_dtype = DType::kBFloat16;
  std::vector<float> context(8);
  call.call.extra_outputs.context = context.data();
  ComputeAlone(*MakeEngine(1), call);
  EXPECT_THAT(context, testing::Each(static_cast<float>(0.99609375 * 4 + 0.0024719238 * 3)));
  EXPECT_THAT(call.output, testing::Each(3.984375f));  // 3.9917908 is rounded before the last product
}

TEST_F(EngineTest, ReturnsTheOutputBiasWithoutKeys) {
  const LayerShape shape{4, 4, 4, {2, 2, 3, 3}, 5};
  Use(shape);
  OwnedCall no_keys(shape, {2, 3, 0}, 1);
  ComputeAlone(*MakeEngine(1), no_keys);
  for (size_t i = 0; i < no_keys.output.size(); ++i) EXPECT_EQ(no_keys.output[i], parameters_.out_bias[i % 5]);
}

TEST_F(EngineTest, SpreadsNaNOnlyToTheRowsThatSeeIt) {
  const LayerShape shape{4, 4, 4, {1, 1, 4, 4}, 4};
  Use(shape);
  const auto engine = MakeEngine(1);
  OwnedCall clean(shape, {2, 20, 20}, 1);
  ComputeAlone(*engine, clean);

  OwnedCall infinite_query(shape, {2, 20, 20}, 1);
  infinite_query.q[(20 + 3) * 4] = std::numeric_limits<float>::infinity();
  ComputeAlone(*engine, infinite_query);
  for (int row = 0; row < 40; ++row) {
    for (int i = row * 4; i < row * 4 + 4; ++i) {
      if (row == 23) {
        EXPECT_TRUE(std::isnan(infinite_query.output[i])) << "row " << row;
      } else {
        EXPECT_EQ(infinite_query.output[i], clean.output[i]) << "row " << row;
      }
    }
  }

  OwnedCall nan_key(shape, {2, 20, 20}, 1);
  nan_key.k[7 * 4] = std::numeric_limits<float>::quiet_NaN();
  ComputeAlone(*engine, nan_key);
  for (int i = 0; i < 160; ++i) {
    if (i < 80) {
      EXPECT_TRUE(std::isnan(nan_key.output[i])) << "element " << i;
    } else {
      EXPECT_EQ(nan_key.output[i], clean.output[i]) << "element " << i;
    }
  }
}

// oneDNN's softmax sets some weights of such a row to 0.
TEST_F(EngineTest, SetsEveryWeightOfARowToNaNIfItsSoftmaxIsNaN) {
  const LayerShape shape{4, 4, 4, {1, 1, 4, 4}, 4};
  Use(shape);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float number : {std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity}) {
    for (const int key : {0, 7, 19, 99}) {
      OwnedCall call(shape, {1, 3, 100}, 1);
      call.k[key * 4] = number;
      std::vector<float> weights(3 * 100), scores(3 * 100);
      call.call.extra_outputs.attn_weights = weights.data();
      call.call.extra_outputs.scores = scores.data();
      ComputeAlone(*MakeEngine(1), call);
      for (int i = 0; i < 300; ++i) {
        const float score = scores[i / 100 * 100 + key];
        const bool is_nan = std::isnan(score) || score == kInfinity;
        EXPECT_EQ(std::isnan(weights[i]), is_nan) << "key " << key << " with score " << score << ", weight " << i;
      }
    }
  }
}

TEST_F(EngineTest, ConvertsInputsAndOutputsOfEveryFloatType) {
  const LayerShape shape{4, 4, 4, {1, 1, 4, 4}, 4};
  Use(shape);
  const auto engine = MakeEngine(1);
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16, DType::kFloat64}) {
    OwnedCall wide(shape, {1, 3, 3, true}, 2);
    for (float& number : wide.q) number = std::round(number * 16) / 16;  // exact in every type
    std::vector<std::byte> narrow(wide.q.size() * DTypeSize(dtype));
    FromFloat32(wide.q.data(), wide.q.size(), dtype, narrow.data());
    ComputeAlone(*engine, wide);
    std::vector<std::byte> expected(wide.output.size() * DTypeSize(dtype)), actual(expected.size());
    FromFloat32(wide.output.data(), wide.output.size(), dtype, expected.data());

    wide.call.inputs_q.dtype = dtype;
    wide.call.inputs_q.data = narrow.data();
    wide.call.inputs_k = wide.call.inputs_v = wide.call.inputs_q;
    wide.call.output.dtype = dtype;
    wide.call.output.data = actual.data();
    ComputeAlone(*engine, wide);
    EXPECT_EQ(actual, expected) << std::string(DTypeName(dtype));
  }
}

}  // namespace
}  // namespace attention::server
