#pragma once

#include <cstdint>

#include "server/engine/attention/head_tensor.h"
#include "server/engine/attention/worker.h"
#include "server/engine/attention_call.h"

namespace attention::server {

// One call with its projections, and where its context goes. Without projections all four are its own inputs and
// output.
struct ProjectedCall {
  const AttentionCall* call = nullptr;
  HeadInput query;     // num_heads of head_dim
  HeadInput key;       // num_kv_heads of head_dim
  HeadInput value;     // num_kv_heads of value_head_dim
  HeadOutput context;  // num_heads of value_head_dim
};

// Some query tiles of one sequence, and of one head or of several: what one thread computes in one go, with one packing
// of keys and values for each head.
struct AttentionUnit {
  const ProjectedCall* projected = nullptr;
  int64_t sequence = 0;  // row of the folded batch
  int64_t first_head = 0;
  int64_t heads = 0;
  int64_t first_query = 0;
  int64_t queries = 0;  // at most kUnitQueries
};

// Everything between the projections and the context, for one unit; also what the call asked for besides.
void Attend(const AttentionUnit& unit, Worker& worker);

}  // namespace attention::server
