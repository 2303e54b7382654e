#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/engine/engine.h"
#include "server/engine/layer.h"
#include "tests/bench/shapes.h"

namespace attention::bench {

// The calls of a shape with random inputs, and the memory that they point to. The layer is shared by all shapes with
// the same width and heads.
class Workload {
 public:
  Workload(const BenchShape& shape, std::shared_ptr<const server::Layer> layer);
  Workload(const Workload&) = delete;
  Workload& operator=(const Workload&) = delete;

  const BenchShape& shape() const { return shape_; }
  const std::shared_ptr<const server::Layer>& layer() const { return layer_; }

  // Computes all calls in one batch.
  absl::Status Compute(server::Engine& engine, server::DType compute_dtype);

  // Computes each call in its own batch.
  absl::Status ComputeAlone(server::Engine& engine, server::DType compute_dtype);

  // Computes the calls of `other` and then these in one batch, which shifts the rows of all these calls.
  // REQUIRES: both have the same layer.
  absl::Status ComputeAfter(Workload& other, server::Engine& engine, server::DType compute_dtype);

  // One output per call. Rows of padding stay 0.
  const std::vector<std::vector<float>>& outputs() const { return outputs_; }
  void ClearOutputs();

 private:
  void AddCall(absl::Span<const Sequence> sequences);
  std::vector<const server::AttentionCall*> CallsWith(server::DType compute_dtype);

  const BenchShape shape_;
  const std::shared_ptr<const server::Layer> layer_;
  std::vector<std::vector<float>> inputs_;  // of all calls
  std::vector<std::vector<float>> outputs_;
  std::vector<server::AttentionCall> calls_;
};

// A random layer for the shape.
absl::StatusOr<std::shared_ptr<const server::Layer>> LayerFor(const BenchShape& shape);

}  // namespace attention::bench
