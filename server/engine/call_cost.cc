#include "server/engine/call_cost.h"

#include <algorithm>
#include <limits>

#include "server/engine/attention/attention.h"
#include "server/engine/attention/tile.h"
#include "server/engine/onednn/tile_shapes.h"
#include "server/engine/plan/waves.h"

namespace attention::server {
namespace {

// Sizes are multiplied in floating point, where a product that exceeds int64 is only rounded.
constexpr double kFloatBytes = sizeof(float);

double WaveBytes(const AttentionShape& shape, int num_threads) {
  const int64_t tokens = std::max<int64_t>(1, TokensPerSequence(shape));
  const int64_t sequences_at_a_time = std::clamp<int64_t>(WaveTokens(shape.heads, num_threads) / tokens,
                                                          std::min<int64_t>(1, shape.batch), shape.batch);
  const auto sequences = static_cast<double>(sequences_at_a_time);
  const double queries = sequences * static_cast<double>(shape.q_length);
  const double keys = sequences * static_cast<double>(shape.kv_length);
  const HeadShape& heads = shape.heads;
  return kFloatBytes * (queries * static_cast<double>(heads.query_features() + heads.context_features()) +
                        keys * static_cast<double>(heads.key_features() + heads.value_features()));
}

double UnitListBytes(const AttentionShape& shape) {
  const int64_t units_per_head = shape.q_length == 0 ? 0 : shape.q_length / kUnitQueries + 1;
  return static_cast<double>(shape.batch) * static_cast<double>(shape.heads.num_heads) *
         static_cast<double>(units_per_head) * sizeof(AttentionUnit);
}

// Two tiles of scores; keys and values of a head, with the norms of the keys; a row of bias and one of weights. Memory
// for a single chunk of keys is small and not counted.
double ThreadBytes(const AttentionShape& shape) {
  const double keys = shape.kv_length == 0 ? 0 : static_cast<double>(KeyBucket(shape.kv_length));
  const auto numbers_per_key = static_cast<double>(shape.heads.head_dim + 1 + shape.heads.value_head_dim + 4);
  return kFloatBytes * keys * (2 * kTileRows + numbers_per_key);
}

// What the fixed work for a call costs: planning, waking a thread, calling the primitives.
constexpr double kCallCost = 4e6;

// What the passes over one score cost besides its two products: exp, sums, mask. Those that write scores or weights,
// or that need the largest score first, take several times as long.
constexpr double kFusedScoreCost = 25;
constexpr double kTwoPassScoreCost = 150;

// The matmul of a short vector takes as long as one of this length.
constexpr double kLeastVector = 16;

// Keys that the queries of a sequence see, summed over the queries, estimated from some of them.
double VisibleKeys(const SequenceLimits& limits) {
  if (limits.q_length == 0) return 0;
  constexpr int64_t kSamples = 9;
  double keys = 0;
  for (int64_t i = 0; i < kSamples; ++i) {
    keys += static_cast<double>(limits.RangeOf((limits.q_length - 1) * i / (kSamples - 1)).size());
  }
  return keys / kSamples * static_cast<double>(limits.q_length);
}

double ScoreCost(const AttentionCall& call, bool returns_scores) {
  const HeadShape& heads = call.shape.heads;
  const double products = std::max(static_cast<double>(heads.head_dim), kLeastVector) +
                          std::max(static_cast<double>(heads.value_head_dim), kLeastVector);
  return static_cast<double>(heads.num_heads) *
         (products + (CanUseFusedExp(call) && !returns_scores ? kFusedScoreCost : kTwoPassScoreCost));
}

// Multiply-adds of the projections of tokens.
double ProjectionCost(const LayerShape& layer, double queries, double keys) {
  const HeadShape& heads = layer.heads;
  const auto product = [](int64_t a, int64_t b) { return static_cast<double>(a) * static_cast<double>(b); };
  return queries * (product(layer.in_features, heads.query_features()) +
                    product(heads.context_features(), layer.out_features)) +
         keys * (product(layer.in_k_features, heads.key_features()) +
                 product(layer.in_v_features, heads.value_features()));
}

}  // namespace

double CallCost(const AttentionCall& call, const LayerShape* layer, bool returns_scores) {
  const AttentionShape& shape = call.shape;
  const int64_t different = std::clamp<int64_t>(static_cast<int64_t>(call.mask.limits.size()), 1, shape.batch);
  const double equal = static_cast<double>(shape.batch) / static_cast<double>(different);
  const bool reads_all = !call.mask.has_only_limits() || call.options.compute_hidden;
  double scores = 0;
  double queries = 0;
  double keys = 0;
  for (int64_t sequence = 0; sequence < different; ++sequence) {
    const NeededTokens tokens = TokensOf(call, sequence);
    const auto of_queries = static_cast<double>(tokens.queries);
    const auto of_keys = static_cast<double>(tokens.keys);
    queries += equal * of_queries;
    keys += equal * of_keys;
    scores += equal * (reads_all ? of_queries * of_keys : VisibleKeys(call.LimitsOf(sequence)));
  }
  const double projections = layer == nullptr ? 0 : ProjectionCost(*layer, queries, keys);
  return kCallCost + projections + scores * ScoreCost(call, returns_scores);
}

int64_t WorkingBytes(const AttentionCall& call, bool with_layer, int num_threads) {
  const AttentionShape& shape = call.shape;
  const double bytes =
      (with_layer ? WaveBytes(shape, num_threads) : 0) + UnitListBytes(shape) + ThreadBytes(shape) * num_threads;
  constexpr auto kMax = std::numeric_limits<int64_t>::max();
  return bytes < static_cast<double>(kMax) ? static_cast<int64_t>(bytes) : kMax;
}

}  // namespace attention::server
