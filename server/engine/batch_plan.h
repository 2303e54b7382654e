#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "server/engine/attention.h"
#include "server/engine/attention_call.h"
#include "server/engine/buffer.h"
#include "server/engine/layer.h"
#include "server/engine/projection.h"

namespace attention::server {

// What a batch is computed in: [tokens, num_heads × head_dim] each, the tokens of all calls end to end.
struct BatchBuffers {
  Buffer query;
  Buffer key;
  Buffer value;
  Buffer context;
};

// A batch cut into pieces of work. The pieces of one step may be computed in any order and at the same time; the steps
// follow one another. Points into the calls, the layer and the buffers that it was made from.
struct BatchPlan {
  // Step 1: projections. One stream for each way in which calls share their inputs.
  std::vector<TokenStream> streams;

  // Step 2: attention.
  std::vector<ProjectedCall> calls;  // in the order of their context rows
  std::vector<AttentionUnit> units;

  // Step 3: the output projection of context [tokens, num_heads × head_dim]; segment i holds the rows of calls[i].
  std::vector<RowSegment> context_rows;
};

// Plans a batch and makes the buffers large enough. Throws std::bad_alloc.
BatchPlan PlanBatch(const Layer& layer, absl::Span<const AttentionCall* const> calls, BatchBuffers& buffers);

}  // namespace attention::server
