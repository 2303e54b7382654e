#pragma once

#include <string>
#include <vector>

#include "server/checkpoint/tensor.h"
#include "server/engine/layer.h"

namespace attention::test {

// One parameter that owns its bytes.
struct Parameter {
  std::string name;  // "query/kernel"
  server::DType dtype = server::DType::kFloat32;
  server::Shape shape;
  std::string bytes;
};

// The parameters of one layer, or of several with a path before each name.
using Parameters = std::vector<Parameter>;

Parameter FloatParameter(std::string name, server::Shape shape, const std::vector<float>& values);

// Empty scales are left out, and empty biases if all of them are; else they are zeros. The names begin with `prefix`:
// "layer0/".
Parameters ToParameters(const server::LayerParameters& layer, const std::string& prefix = "");

// Random kernels and biases that keep scores and outputs near 1; the same for the same seed.
server::LayerParameters RandomLayer(const server::LayerShape& shape, uint32_t seed);

// The layer with random scales of a LayerNorm of query and key.
server::LayerParameters WithLayerNorm(server::LayerParameters layer, uint32_t seed);

// One head, every kernel the identity, no bias.
server::LayerParameters IdentityLayer(int64_t features);

// The public question's layer: kernels of ones [3, 1, 4], out kernel the identity. Each output is the sum of the
// features of what was attended.
server::LayerParameters OnesLayer();

// A whole safetensors file. REQUIRES: names that are all different.
std::string Serialize(const Parameters& parameters);

}  // namespace attention::test
