#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "absl/types/span.h"
#include "server/engine/attention_call.h"

namespace attention::server {

// Tokens of a slice, and of what is computed at a time: so few that what a token becomes between the projections stays
// in the second- and third-level cache, and in the latter so many that all threads have work.
int64_t SliceTokens(const HeadShape& heads);
int64_t WaveTokens(const HeadShape& heads, int num_threads);

// Calls, cut into calls of some of their sequences each. What is computed for a call is so much at a time that its
// projections are still in the cache when they are attended to, and memory is bounded whatever the batch.
class CallSlices {
 public:
  // Cuts each call into slices of so many whole sequences that a slice has about `slice_tokens`, at least one. Where a
  // call is cut depends on the call alone. The calls must outlive this. `out_features` are the layer's.
  CallSlices(absl::Span<const AttentionCall* const> calls, int64_t out_features, int64_t slice_tokens);

  // In the order of the calls.
  absl::Span<const AttentionCall* const> slices() const { return slices_; }

 private:
  struct Slice {
    AttentionCall call;
    std::array<int64_t, 9> shapes;
  };

  void Add(const AttentionCall& call, int64_t first, int64_t count, int64_t out_features);

  std::deque<Slice> owned_;
  std::vector<const AttentionCall*> slices_;
};

// Cuts `slices` where more than `wave_tokens` would come together; each wave has at least one.
std::vector<absl::Span<const AttentionCall* const>> CutWaves(absl::Span<const AttentionCall* const> slices,
                                                             int64_t wave_tokens);

}  // namespace attention::server
