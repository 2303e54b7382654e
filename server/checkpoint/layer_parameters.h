#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/checkpoint/tensor.h"

namespace attention::server {

// Sizes of the heads, all at least 1; num_heads is a multiple of num_kv_heads.
struct HeadShape {
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t value_head_dim = 0;

  int64_t query_features() const { return num_heads * head_dim; }
  int64_t key_features() const { return num_kv_heads * head_dim; }
  int64_t value_features() const { return num_kv_heads * value_head_dim; }
  int64_t context_features() const { return num_heads * value_head_dim; }

  // The key and value head that a query head uses.
  int64_t KvHead(int64_t head) const { return head / (num_heads / num_kv_heads); }
};

// Sizes of one attention layer, all at least 1.
struct LayerShape {
  int64_t in_features = 0;
  int64_t in_k_features = 0;
  int64_t in_v_features = 0;
  HeadShape heads;
  int64_t out_features = 0;
};

// The parameters of a layer in float32, row-major. An empty bias is zero. Shapes as in attention.v1.WeightService.
struct LayerParameters {
  LayerShape shape;
  std::vector<float> query_kernel, query_bias;
  std::vector<float> key_kernel, key_bias;
  std::vector<float> value_kernel, value_bias;
  std::vector<float> out_kernel, out_bias;
  // [head_dim] each; both empty if the layer has no LayerNorm of query and key.
  std::vector<float> query_ln_scale, key_ln_scale;
};

// A tensor of a weight set as the file stores it.
struct ParameterInfo {
  std::string name;  // relative to the weight set: "query/kernel"
  DType dtype = DType::kFloat32;
  Shape shape;
};

}  // namespace attention::server
