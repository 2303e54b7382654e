#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "server/checkpoint/layer_parameters.h"

namespace attention::server {

class PackedKernels;

// One attention layer, ready for computation: its kernels are in the blocked layout for which oneDNN's matmul is
// fastest. Immutable and thread-safe.
class Layer {
 public:
  // Packs the kernels and compiles the primitives that requests for the layer need (warm_up.h). INTERNAL if oneDNN
  // fails, RESOURCE_EXHAUSTED if memory runs out.
  // REQUIRES: every vector of `parameters` has the size that the shape implies, or is an empty bias or scale.
  static absl::StatusOr<std::shared_ptr<const Layer>> Pack(const LayerParameters& parameters);

  ~Layer();

  const LayerShape& shape() const { return shape_; }
  const PackedKernels& kernels() const { return *kernels_; }

  // Memory of the packed kernels and biases.
  int64_t bytes() const;

  // True if every parameter is finite.
  bool is_finite() const { return is_finite_; }

 private:
  Layer(const LayerParameters& parameters, std::unique_ptr<const PackedKernels> kernels);

  const LayerShape shape_;
  const bool is_finite_;
  const std::unique_ptr<const PackedKernels> kernels_;
};

}  // namespace attention::server
