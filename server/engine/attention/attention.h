#pragma once

#include <cstdint>

#include "server/engine/attention/head_tensor.h"
#include "server/engine/attention/worker.h"
#include "server/engine/attention_call.h"

namespace attention::server {

// The tensors of a slice: query, key and value, and where its context is written. Without a layer these are the inputs
// and the output of the call.
struct SliceTensors {
  CallSlice slice;
  HeadInput query;     // num_heads of head_dim
  HeadInput key;       // num_kv_heads of head_dim
  HeadInput value;     // num_kv_heads of value_head_dim
  HeadOutput context;  // num_heads of value_head_dim
};

// Some queries of one sequence and of one or several heads: the work that one thread does at a time. The keys and
// values of a head are read once per unit.
struct AttentionUnit {
  const SliceTensors* tensors = nullptr;
  int64_t sequence = 0;
  int64_t first_head = 0;
  int64_t heads = 0;
  int64_t first_query = 0;
  int64_t queries = 0;  // at most kUnitQueries
};

// Computes the context of one unit from query, key and value, and writes the extra outputs that the call requests.
void Attend(const AttentionUnit& unit, Worker& worker);

}  // namespace attention::server
