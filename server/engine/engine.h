#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/engine/attention_call.h"
#include "server/engine/layer.h"

namespace attention::server {

// Computes attention for batches of requests, over a pool of threads.
//
// The tokens of all calls of a batch are laid end to end, without padding, and computed in waves of as many sequences
// as the cache holds: one matmul projects the tokens of a wave, cut into row tiles; attention then runs for each
// (sequence, head, query tile); one more matmul gives the outputs. What is computed for a call depends on the call
// alone, never on its neighbours or on the number of threads, so neither do its bits.
//
// Thread-safe: calls of Compute may run at the same time and share the pool.
class Engine {
 public:
  // `num_threads` counts the thread that calls Compute. REQUIRES: num_threads >= 1.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(int num_threads);

  ~Engine();

  // Computes every call of the batch and fills its outputs. `layer` is null for calls without projections. On an error
  // the outputs are undefined; no exception leaves. INTERNAL if oneDNN fails, RESOURCE_EXHAUSTED if memory runs out.
  // REQUIRES: each call was checked against `layer`, and its memory stays until the return.
  absl::Status Compute(const Layer* layer, absl::Span<const AttentionCall* const> calls);

 private:
  class Impl;
  explicit Engine(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

}  // namespace attention::server
