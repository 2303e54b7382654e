#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "server/checkpoint/layer_parameters.h"

namespace attention::server {

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
