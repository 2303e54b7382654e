#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "server/engine/engine.h"
#include "tests/testing/matchers.h"
#include "tests/testing/reference/reference_attention.h"
#include "tests/unit/engine/owned_call.h"

namespace attention::server {
namespace {

TEST(AttentionWithoutLayerTest, AgreesWithTheReferenceInEitherOrderOfAxes) {
  const HeadShape heads{.num_heads = 4, .num_kv_heads = 2, .head_dim = 3, .value_head_dim = 5};
  constexpr int64_t kQueries = 70, kKeys = 9;
  std::mt19937 random(5);
  const std::vector<float> q = RandomNumbers(2 * kQueries * 12, random);
  const std::vector<float> k = RandomNumbers(2 * kKeys * 6, random);
  const std::vector<float> v = RandomNumbers(2 * kKeys * 10, random);
  const auto transposed = [](const std::vector<float>& from, int64_t length, int64_t num_heads) {
    const int64_t size = static_cast<int64_t>(from.size()) / (2 * length * num_heads);
    std::vector<float> to(from.size());
    for (int64_t i = 0; i < static_cast<int64_t>(from.size()); ++i) {
      const int64_t head = i / size % num_heads, token = i / (size * num_heads) % length;
      const int64_t sequence = i / (size * num_heads * length);
      to[((sequence * num_heads + head) * length + token) * size + i % size] = from[i];
    }
    return to;
  };
  const auto attend = [&](HeadAxes axes, const auto& query, const auto& key, const auto& value) {
    std::vector<float> output(2 * kQueries * 20);
    AttentionCall call;
    call.shape.batch = 2;
    call.shape.q_length = kQueries;
    call.shape.kv_length = kKeys;
    call.shape.heads = heads;
    call.shape.head_axes = axes;
    call.options.scale = 0.5f;
    call.inputs_q = OwnedCall::Input(query, kQueries, heads.query_features());
    call.inputs_k = OwnedCall::Input(key, kKeys, heads.key_features());
    call.inputs_v = OwnedCall::Input(value, kKeys, heads.value_features());
    call.output = {DType::kFloat32, reinterpret_cast<std::byte*>(output.data()), kQueries, heads.context_features()};
    const AttentionCall* pointer = &call;
    const auto engine = Engine::Create(2);
    EXPECT_THAT(engine, test::IsOk());
    EXPECT_THAT((*engine)->Compute(nullptr, {&pointer, 1}), test::IsOk());
    return output;
  };
  const std::vector<float> output = attend(HeadAxes::kLengthHeads, q, k, v);
  test::ReferenceInputs inputs{.batch = 2, .q_length = kQueries, .kv_length = kKeys};
  inputs.inputs_q.assign(q.begin(), q.end());
  inputs.inputs_k.assign(k.begin(), k.end());
  inputs.inputs_v.assign(v.begin(), v.end());
  inputs.scale = 0.5;
  const std::vector<double> expected = test::ReferenceAttention(heads, inputs).output;
  for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(output[i], expected[i], 1e-6) << "at element " << i;
  EXPECT_EQ(transposed(output, kQueries, 4), attend(HeadAxes::kHeadsLength, transposed(q, kQueries, 4),
                                                    transposed(k, kKeys, 2), transposed(v, kKeys, 2)));
}

}  // namespace
}  // namespace attention::server
