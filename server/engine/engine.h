#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/engine/attention_call.h"
#include "server/engine/layer.h"

namespace attention::server {

// Computes attention for batches of requests on a pool of threads.
//
// Words that all files of the engine use, in the order in which a batch is cut into work:
//
//   call        one request; its batch axes are folded into one axis of sequences
//   token       one position of a sequence: one row of an input. Tokens that no query needs are not computed.
//   slice       some consecutive sequences of one call
//   wave        the slices that are computed at a time, so that intermediate results stay in the cache
//   projection  tokens of several slices, end to end without padding, that are multiplied by the same kernels
//   tile        at most 128 rows of a projection, or queries of one head: the height of one matmul
//   unit        at most 1024 queries of one sequence and head: the attention that one thread computes at a time
//   chunk       at most 512 keys of one sequence and head: the width of one matmul
//
// Each wave takes three steps. The tiles or units of a step run in parallel:
//
//   1. inputs → projections → query, key, value       projection/
//   2. query, key, value → units → context            attention/
//   3. context → output projections → output          projection/
//
// plan/ cuts the batch, onednn/ has the primitives, kernels/ the loops that oneDNN has no primitive for.
//
// The computation of a call depends on that call alone, never on other calls of the batch or on the number of threads,
// so its results always have the same bits.
//
// A call whose StopToken says stop is skipped as soon as possible; the others of the batch are computed as if it were
// not there.
//
// Thread-safe: several calls of Compute may run at the same time and share the pool.
class Engine {
 public:
  // `num_threads` includes the thread that calls Compute. INTERNAL, with the first wrong number, if oneDNN computes
  // wrong numbers on this CPU (self_check.h). REQUIRES: num_threads >= 1.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(int num_threads);

  ~Engine();

  // Computes every call of the batch and fills its outputs. `layer` is null for calls without a weight set. A batch of
  // at most kCallerCost is computed on the calling thread, so that it does not wait for the pool. Throws nothing. On an
  // error the outputs are undefined: INTERNAL if oneDNN fails, RESOURCE_EXHAUSTED if memory runs out. The outputs of a
  // call that was stopped are undefined too; only its StopToken knows.
  // REQUIRES: each call was checked against `layer`, and its memory outlives this call.
  absl::Status Compute(const Layer* layer, absl::Span<const AttentionCall* const> calls);

  // About a millisecond of one thread.
  static constexpr double kCallerCost = 1e8;

 private:
  class Impl;
  explicit Engine(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

}  // namespace attention::server
