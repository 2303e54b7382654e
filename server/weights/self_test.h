#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/checkpoint/layouts/layers.h"
#include "server/checkpoint/tensor.h"
#include "server/engine/layer.h"

namespace attention::server {

// What a layer gives for the inputs of a self-test: [batch…, q_length, out_features], row-major.
struct SelfTestOutput {
  Shape shape;
  std::vector<float> values;
};

// Computes it. INVALID_ARGUMENT, with the tensor, for inputs that no request could have.
using ComputeSelfTest = std::function<absl::StatusOr<SelfTestOutput>(const Layer& layer, const SelfTestTensors& test)>;

// Computes a layer with the inputs of its self-test, and compares: |got − output| ≤ tolerance · max(1, |output|) for
// each number. OK if it has none, or `compute` is null.
//
// FAILED_PRECONDITION if a number differs more, with the weight set, the greatest difference beyond what is allowed,
// where it is, and the tolerance; INVALID_ARGUMENT for an output of another shape; and what `compute` says.
absl::Status RunSelfTest(const LayerTensors& tensors, const Layer& layer, const ComputeSelfTest& compute);

}  // namespace attention::server
