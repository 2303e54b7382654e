#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "server/engine/engine.h"
#include "server/engine/plan/waves.h"
#include "tests/testing/files/weights.h"
#include "tests/testing/matchers.h"
#include "tests/unit/engine/owned_call.h"

namespace attention::server {
namespace {

using test::IsOk;

// A call of several slices, with a different mask, bias and length for each sequence.
TEST(CallSliceTest, ComputesEachSequenceOfALargeCallAsAlone) {
  const LayerShape shape{48, 48, 48, {4, 4, 12, 12}, 48};
  const auto layer = Layer::Pack(test::RandomLayer(shape, 7));
  ASSERT_THAT(layer, IsOk());
  const auto engine = Engine::Create(2);
  ASSERT_THAT(engine, IsOk());
  constexpr int64_t kBatch = 12, kQueries = 200, kKeys = 150, kRows = 4 * kQueries;
  OwnedCall whole(shape, {kBatch, kQueries, kKeys, false, true}, 3);
  AttentionCall& call = whole.call;
  ASSERT_GT(CutCalls(std::vector<const AttentionCall*>{&call}, SliceTokens(shape.heads)).size(), 2u);

  std::mt19937 random(4);
  const std::vector<float> bias = RandomNumbers(kBatch * kKeys, random);
  call.bias.dtype = DType::kFloat32;
  call.bias.data = reinterpret_cast<const std::byte*>(bias.data());
  call.bias.kv_stride = 1;
  call.mask.segments.q_batch_stride = kQueries;
  call.mask.segments.kv_batch_stride = kKeys;
  for (int64_t sequence = 0; sequence < kBatch; ++sequence) {
    call.bias.batch_offsets.push_back(sequence * kKeys);
    call.mask.limits.push_back({.q_length = kQueries - 7 * sequence, .kv_length = kKeys - 5 * sequence});
    for (int64_t i = 0; i < kQueries; ++i) call.mask.segments.q.push_back((i + sequence) / 40 % 3);
    for (int64_t i = 0; i < kKeys; ++i) call.mask.segments.kv.push_back((i + 2 * sequence) / 30 % 3);
  }
  std::vector<float> query(kBatch * kQueries * 48), weights(kBatch * kRows * kKeys), log_sum_exp(kBatch * kRows);
  EmptyRowCounter empty_rows;
  call.extra_outputs = {.query = query.data(), .attn_weights = weights.data(), .log_sum_exp = log_sum_exp.data()};
  call.empty_rows = &empty_rows;
  const AttentionCall* const all_sequences = &call;
  ASSERT_THAT((*engine)->Compute(layer->get(), {&all_sequences, 1}), IsOk());

  int64_t empty_row_count = 0;
  for (int64_t sequence = 0; sequence < kBatch; ++sequence) {
    AttentionCall one = call;
    one.shape.batch = 1;
    one.inputs_q.data = call.inputs_q.At(sequence);
    one.inputs_k.data = one.inputs_v.data = call.inputs_k.At(sequence);
    one.mask.dense.batch_offsets = {call.mask.dense.batch_offsets[sequence]};
    one.mask.limits = {call.mask.limits[sequence]};
    one.mask.segments.q.erase(one.mask.segments.q.begin(), one.mask.segments.q.begin() + sequence * kQueries);
    one.mask.segments.kv.erase(one.mask.segments.kv.begin(), one.mask.segments.kv.begin() + sequence * kKeys);
    one.bias.batch_offsets = {call.bias.batch_offsets[sequence]};
    std::vector<float> output(kQueries * 48), one_query(kQueries * 48), one_weights(kRows * kKeys), one_sums(kRows);
    one.output.data = reinterpret_cast<std::byte*>(output.data());
    one.extra_outputs = {.query = one_query.data(), .attn_weights = one_weights.data(), .log_sum_exp = one_sums.data()};
    EmptyRowCounter one_empty_rows;
    one.empty_rows = &one_empty_rows;
    const AttentionCall* pointer = &one;
    ASSERT_THAT((*engine)->Compute(layer->get(), {&pointer, 1}), IsOk());
    empty_row_count += one_empty_rows.count();

    const auto expect_part = [&](const char* name, const std::vector<float>& all, const std::vector<float>& part) {
      const float* const actual = all.data() + sequence * part.size();
      EXPECT_EQ(std::memcmp(actual, part.data(), part.size() * sizeof(float)), 0) << name << " of " << sequence;
    };
    expect_part("output", whole.output, output);
    expect_part("query", query, one_query);
    expect_part("attn_weights", weights, one_weights);
    expect_part("log_sum_exp", log_sum_exp, one_sums);
  }
  EXPECT_GT(empty_row_count, 0);
  EXPECT_EQ(empty_rows.count(), empty_row_count);
}

}  // namespace
}  // namespace attention::server
