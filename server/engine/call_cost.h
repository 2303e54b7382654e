#pragma once

#include <cstdint>

#include "server/checkpoint/layer_parameters.h"
#include "server/engine/attention_call.h"

// What a call needs of the machine, from its sizes and lengths alone, before anything is allocated.
namespace attention::server {

// Multiply-adds of a call, with the passes over scores and the fixed work of a call counted as the multiply-adds that
// take as long. An estimate: only the order of magnitude and the comparison with other calls matter. `layer` is null
// for a call without a weight set; `returns_scores`: whether scores or weights are part of the reply.
// REQUIRES: batch >= 1.
double CallCost(const AttentionCall& call, const LayerShape* layer, bool returns_scores);

// Bytes that Engine::Compute needs for this call alone, besides its inputs and outputs: the intermediate results of a
// wave (`with_layer`), the list of units, and per thread a tile of scores and the keys and values of a head. At most
// the largest int64.
int64_t WorkingBytes(const AttentionCall& call, bool with_layer, int num_threads);

}  // namespace attention::server
