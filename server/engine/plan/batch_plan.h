#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "server/engine/attention/attention.h"
#include "server/engine/attention_call.h"
#include "server/engine/kernels/buffer.h"
#include "server/engine/layer.h"
#include "server/engine/projection/projection.h"

namespace attention::server {

// What a batch is computed in, each float32 and [rows, heads × head_dim] of all calls end to end.
struct BatchBuffers {
  Buffer query;
  Buffer key;
  Buffer value;
  Buffer context;
};

// Where rows [rows, out_features] go.
struct OutputRows {
  DType dtype = DType::kFloat32;
  std::byte* data = nullptr;
};

// Context rows that are projected alike; those of segment i go to outputs[i].
struct ContextStream {
  DType operands = DType::kFloat32;
  const float* context = nullptr;  // [all rows of the stream, num_heads × value_head_dim]
  std::vector<RowSegment> segments;
  std::vector<OutputRows> outputs;
};

// A batch cut into pieces of work. The pieces of one step may be computed in any order and at the same time; the steps
// follow one another. Points into the calls, the layer and the buffers that it was made from.
struct BatchPlan {
  // Step 1: projections. One stream for each way in which calls share their inputs, and each type of operands.
  std::vector<TokenStream> streams;

  // Step 2: attention.
  std::vector<ProjectedCall> calls;
  std::vector<AttentionUnit> units;

  // Step 3: the output projection. One stream for each type of operands.
  std::vector<ContextStream> contexts;
};

// Plans a batch and makes the buffers large enough. Throws std::bad_alloc.
BatchPlan PlanBatch(const Layer& layer, absl::Span<const AttentionCall* const> calls, BatchBuffers& buffers);

// The same without projections: there is only step 2, which reads from the requests and writes into the replies.
BatchPlan PlanUnprojected(absl::Span<const AttentionCall* const> calls);

}  // namespace attention::server
