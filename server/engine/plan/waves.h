#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "server/engine/attention_call.h"

namespace attention::server {

// Tokens of a slice and of a wave. A slice is small enough that the projections of its tokens stay in the second-level
// cache until they are attended to. A wave is small enough for the third-level cache, and large enough to give every
// thread work. They also limit the memory of a batch of any size.
int64_t SliceTokens(const HeadShape& heads);
int64_t WaveTokens(const HeadShape& heads, int num_threads);

// Cuts each call into slices of about `slice_tokens` tokens, at least one sequence each, in the order of the calls. The
// cuts in a call depend on that call alone. The slices point to the calls.
std::vector<CallSlice> CutCalls(absl::Span<const AttentionCall* const> calls, int64_t slice_tokens);

// Groups consecutive slices into waves of at most `wave_tokens` tokens, at least one slice each.
std::vector<absl::Span<const CallSlice>> CutWaves(absl::Span<const CallSlice> slices, int64_t wave_tokens);

// Queries plus keys of a sequence, without regard to the mask.
int64_t TokensPerSequence(const AttentionShape& shape);

}  // namespace attention::server
