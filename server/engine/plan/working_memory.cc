#include "server/engine/plan/working_memory.h"

#include <algorithm>
#include <limits>

#include "server/engine/attention/attention.h"
#include "server/engine/onednn/tile_shapes.h"
#include "server/engine/plan/call_slices.h"

namespace attention::server {
namespace {

// In floating point, where a product of large sizes is rounded rather than wrong.
constexpr double kFloatBytes = sizeof(float);

// Of the sequences that are computed at a time.
double ProjectionBytes(const AttentionCall& call, int num_threads) {
  const int64_t tokens = call.q_length + (call.k_is_q ? 0 : call.kv_length);
  const int64_t sequences = WaveTokens(call.heads, num_threads) / std::max<int64_t>(1, tokens);
  const auto at_a_time =
      static_cast<double>(std::clamp<int64_t>(sequences, std::min<int64_t>(1, call.batch), call.batch));
  const double queries = at_a_time * static_cast<double>(call.q_length);
  const double keys = at_a_time * static_cast<double>(call.kv_length);
  const HeadShape& heads = call.heads;
  return kFloatBytes * (queries * static_cast<double>(heads.query_features() + heads.context_features()) +
                        keys * static_cast<double>(heads.key_features() + heads.value_features()));
}

double UnitBytes(const AttentionCall& call) {
  const int64_t pieces = call.q_length == 0 ? 0 : call.q_length / kUnitQueries + 1;
  return static_cast<double>(call.batch) * static_cast<double>(call.heads.num_heads) * static_cast<double>(pieces) *
         sizeof(AttentionUnit);
}

// Two tiles of scores; the packed keys and values of a head, with their norms; a row of bias and one of weights. What
// is kept of one chunk of keys alone does not count.
double ThreadBytes(const AttentionCall& call) {
  const double keys = call.kv_length == 0 ? 0 : static_cast<double>(KeyBucket(call.kv_length));
  const auto numbers = static_cast<double>(call.heads.head_dim + 1 + call.heads.value_head_dim + 4);
  return kFloatBytes * keys * (2 * kTileRows + numbers);
}

}  // namespace

int64_t WorkingBytes(const AttentionCall& call, bool with_projections, int num_threads) {
  const double bytes =
      (with_projections ? ProjectionBytes(call, num_threads) : 0) + UnitBytes(call) + ThreadBytes(call) * num_threads;
  constexpr auto kMost = std::numeric_limits<int64_t>::max();
  return bytes < static_cast<double>(kMost) ? static_cast<int64_t>(bytes) : kMost;
}

}  // namespace attention::server
