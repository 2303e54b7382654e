#pragma once

#include <cstdint>

#include "server/engine/attention_call.h"
#include "server/engine/layer.h"
#include "server/engine/worker.h"

namespace attention::server {

// The projections of one call, and where its context goes: each [batch, length, num_heads, head_dim].
struct ProjectedCall {
  const AttentionCall* call = nullptr;
  float* query = nullptr;
  float* key = nullptr;
  float* value = nullptr;
  float* context = nullptr;
};

// Some query tiles of one sequence and head: what one thread computes in one go, with one packing of keys and values.
struct AttentionUnit {
  const ProjectedCall* projected = nullptr;
  int64_t sequence = 0;  // row of the folded batch
  int64_t head = 0;
  int64_t first_query = 0;
  int64_t queries = 0;
};

// context = softmax(where(mask, query/√head_dim · keyᵀ, lowest)) · value, for one unit; also what the call asked for
// besides. REQUIRES: kv_length >= 1.
void Attend(const LayerShape& shape, const AttentionUnit& unit, Worker& worker);

}  // namespace attention::server
