#include "server/engine/plan/waves.h"

#include <algorithm>

namespace attention::server {
namespace {

// Bytes of query, key, value and context of one token.
int64_t TokenBytes(const HeadShape& heads) {
  const int64_t numbers =
      heads.query_features() + heads.key_features() + heads.value_features() + heads.context_features();
  return numbers * static_cast<int64_t>(sizeof(float));
}

}  // namespace

int64_t SliceTokens(const HeadShape& heads) { return (int64_t{1} << 20) / TokenBytes(heads); }

int64_t WaveTokens(const HeadShape& heads, int num_threads) {
  constexpr int64_t kTokensPerThread = 256;
  return std::max<int64_t>((int64_t{8} << 20) / TokenBytes(heads), kTokensPerThread * num_threads);
}

int64_t TokensPerSequence(const AttentionShape& shape) {
  return shape.q_length + (shape.k_is_q() ? 0 : shape.kv_length);
}

std::vector<CallSlice> CutCalls(absl::Span<const AttentionCall* const> calls, int64_t slice_tokens) {
  std::vector<CallSlice> slices;
  for (const AttentionCall* call : calls) {
    const int64_t sequences = std::max<int64_t>(1, slice_tokens / std::max<int64_t>(1, TokensPerSequence(call->shape)));
    const int64_t batch = call->shape.batch;
    for (int64_t first = 0; first < batch; first += sequences) {
      slices.push_back({call, first, std::min(sequences, batch - first)});
    }
  }
  return slices;
}

std::vector<absl::Span<const CallSlice>> CutWaves(absl::Span<const CallSlice> slices, int64_t wave_tokens) {
  std::vector<absl::Span<const CallSlice>> waves;
  size_t first = 0;
  int64_t tokens = 0;
  for (size_t i = 0; i < slices.size(); ++i) {
    const int64_t slice_tokens = slices[i].sequences * TokensPerSequence(slices[i].call->shape);
    if (i > first && tokens + slice_tokens > wave_tokens) {
      waves.push_back(slices.subspan(first, i - first));
      first = i;
      tokens = 0;
    }
    tokens += slice_tokens;
  }
  if (first < slices.size()) waves.push_back(slices.subspan(first));
  return waves;
}

}  // namespace attention::server
