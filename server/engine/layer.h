#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "server/engine/attention_call.h"

namespace attention::server {

// Sizes of one attention layer, all at least 1.
struct LayerShape {
  int64_t in_features = 0;
  int64_t in_k_features = 0;
  int64_t in_v_features = 0;
  HeadShape heads;
  int64_t out_features = 0;
};

// The parameters of a layer in float32, row-major; an empty bias is zero. Shapes as in attention.v1.WeightService.
struct LayerParameters {
  LayerShape shape;
  std::vector<float> query_kernel, query_bias;
  std::vector<float> key_kernel, key_bias;
  std::vector<float> value_kernel, value_bias;
  std::vector<float> out_kernel, out_bias;
  // Both [head_dim], or both empty: no LayerNorm of query and key.
  std::vector<float> query_ln_scale, key_ln_scale;
};

class PackedKernels;

// One attention layer, ready to compute with: its kernels in the blocked layout that oneDNN's matmul is fastest with.
// Immutable, so any number of threads may use it.
class Layer {
 public:
  // Also has oneDNN compile what requests for it need, so that no request waits for that.
  // REQUIRES: every vector of `parameters` has the size that its shape says, or is an empty bias.
  // INTERNAL if oneDNN refuses, RESOURCE_EXHAUSTED if memory runs out.
  static absl::StatusOr<std::shared_ptr<const Layer>> Pack(const LayerParameters& parameters);

  ~Layer();

  const LayerShape& shape() const { return shape_; }
  const PackedKernels& kernels() const { return *kernels_; }

  // Memory that the packed kernels and biases take.
  int64_t bytes() const;

 private:
  Layer(const LayerShape& shape, std::unique_ptr<const PackedKernels> kernels);

  const LayerShape shape_;
  const std::unique_ptr<const PackedKernels> kernels_;
};

}  // namespace attention::server
