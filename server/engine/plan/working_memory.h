#pragma once

#include <cstdint>

#include "server/engine/attention_call.h"

namespace attention::server {

// Bytes that the engine takes to compute this call alone, besides its inputs and outputs: projections and context of
// the tokens that are computed at a time (unless there are no projections), the list of what is to be done, and for
// each thread one tile of scores and one head's keys and values. The largest int64 if it is more than that.
int64_t WorkingBytes(const AttentionCall& call, bool with_projections, int num_threads);

}  // namespace attention::server
