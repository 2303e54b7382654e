#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/engine/engine.h"
#include "server/engine/layer.h"
#include "tests/bench/shapes.h"

namespace attention::bench {

// A shape with numbers: random inputs, the calls that hold them, and their outputs. The layer is shared by all shapes
// of its width and heads.
class Workload {
 public:
  Workload(const BenchShape& shape, std::shared_ptr<const server::Layer> layer);
  Workload(const Workload&) = delete;
  Workload& operator=(const Workload&) = delete;

  const BenchShape& shape() const { return shape_; }
  const std::shared_ptr<const server::Layer>& layer() const { return layer_; }

  // The whole batch.
  absl::Status Compute(server::Engine& engine, server::DType compute_dtype);

  // Each call in a batch of its own.
  absl::Status ComputeAlone(server::Engine& engine, server::DType compute_dtype);

  // The whole batch behind the calls of another one, which shift all its rows. REQUIRES: both have one layer.
  absl::Status ComputeBehind(Workload& other, server::Engine& engine, server::DType compute_dtype);

  // One for each call. What is behind the real tokens stays 0.
  const std::vector<std::vector<float>>& outputs() const { return outputs_; }
  void ClearOutputs();

 private:
  void AddCall(absl::Span<const Sequence> sequences);
  std::vector<const server::AttentionCall*> CallsWith(server::DType compute_dtype);

  const BenchShape shape_;
  const std::shared_ptr<const server::Layer> layer_;
  std::vector<server::Shape> shapes_;       // of the tensors of all calls
  std::vector<std::vector<float>> inputs_;  // the same
  std::vector<std::vector<float>> outputs_;
  std::vector<server::AttentionCall> calls_;
};

// The layer of a shape, random.
absl::StatusOr<std::shared_ptr<const server::Layer>> LayerFor(const BenchShape& shape);

}  // namespace attention::bench
