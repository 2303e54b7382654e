#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "server/engine/tensor.h"

namespace attention::server {

// A boolean mask that was broadcast to [batch, num_heads, q_length, kv_length]: the byte of one (row, head, query, key)
// is data[batch_offsets[row] + head * head_stride + query * q_stride + key * kv_stride]. A stride is 0 where the mask
// has one entry for all. Not 0 = attend.
struct DenseMask {
  const uint8_t* data = nullptr;  // null: every query sees every key
  std::vector<int64_t> batch_offsets;
  int64_t head_stride = 0;
  int64_t q_stride = 0;
  int64_t kv_stride = 0;
};

// Where the lines of the formula go, each float32 and row-major, each null if nobody asked for it. Shapes as in
// attention.v1.AttendResponse, with the batch axes folded into one.
struct CallOutputs {
  float* query = nullptr;         // [batch, q_length, num_heads, head_dim]
  float* key = nullptr;           // [batch, kv_length, num_heads, head_dim]
  float* value = nullptr;         // [batch, kv_length, num_heads, head_dim]
  float* scores = nullptr;        // [batch, num_heads, q_length, kv_length]
  float* attn_weights = nullptr;  // [batch, num_heads, q_length, kv_length]
  float* context = nullptr;       // [batch, q_length, num_heads, head_dim]
};

// One request as the engine sees it: checked against the layer, batch axes folded into one, all memory the caller's.
struct AttentionCall {
  int64_t batch = 0;
  int64_t q_length = 0;
  int64_t kv_length = 0;

  // [batch, length, features], each of a float type. The features are those of the layer's kernels.
  TensorView inputs_q;
  TensorView inputs_k;
  TensorView inputs_v;
  // Inputs that were left out are the same tensor as the one before; the engine then projects them together.
  bool k_is_q = false;
  bool v_is_k = false;

  DenseMask mask;

  // [batch, q_length, out_features]
  DType output_dtype = DType::kFloat32;
  std::byte* output = nullptr;
  CallOutputs also;

  // Rows that have to be projected: batch × (q_length, plus kv_length unless k_is_q).
  int64_t tokens() const { return batch * q_length + (k_is_q ? 0 : batch * kv_length); }
};

}  // namespace attention::server
