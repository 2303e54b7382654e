#pragma once

#include <vector>

#include "absl/types/span.h"
#include "server/engine/attention/attention.h"
#include "server/engine/attention_call.h"
#include "server/engine/kernels/buffer.h"
#include "server/engine/layer.h"
#include "server/engine/projection/projection.h"

namespace attention::server {

// Results between the steps of a wave: float32 [tokens, heads × head_dim] of all its slices, end to end.
struct WaveBuffers {
  Buffer query;
  Buffer key;
  Buffer value;
  Buffer context;
};

// The work of one wave in three steps. The items of one step may be computed in any order and at the same time. Points
// to the calls, the layer and the buffers that it was made from.
struct BatchPlan {
  // Step 1: one projection for each InputSharing and each operand type, and for each input that is not shared.
  std::vector<Projection> projections;

  // Step 2: attention.
  std::vector<SliceTensors> slices;
  std::vector<AttentionUnit> units;  // point to `slices`

  // Step 3: one for each operand type.
  std::vector<OutputProjection> output_projections;
};

// Plans a wave and makes the buffers large enough. Throws std::bad_alloc.
BatchPlan PlanWave(const Layer& layer, absl::Span<const CallSlice> slices, WaveBuffers& buffers);

// The plan of calls without a weight set: step 2 only, which reads the requests and writes the replies.
BatchPlan PlanWithoutLayer(absl::Span<const AttentionCall* const> calls);

}  // namespace attention::server
