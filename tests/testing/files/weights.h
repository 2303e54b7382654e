#pragma once

#include <string>
#include <vector>

#include "server/checkpoint/tensor.h"
#include "server/engine/layer.h"

namespace attention::test {

// One parameter. Owns its bytes.
struct Parameter {
  std::string name;  // "query/kernel"
  server::DType dtype = server::DType::kFloat32;
  server::Shape shape;
  std::string bytes;
};

// The parameters of one layer, or of several layers with a path before each name.
using Parameters = std::vector<Parameter>;

Parameter FloatParameter(std::string name, server::Shape shape, const std::vector<float>& values);

// Converts a layer to parameters whose names start with `prefix`, for example "layer0/". Empty scales are omitted.
// Empty biases are omitted if all biases are empty, and zeros otherwise.
Parameters ToParameters(const server::LayerParameters& layer, const std::string& prefix = "");

// Random kernels and biases for which scores and outputs are near 1. Equal seeds give equal layers.
server::LayerParameters RandomLayer(const server::LayerShape& shape, uint32_t seed);

// The layer with random LayerNorm scales of query and key.
server::LayerParameters WithLayerNorm(server::LayerParameters layer, uint32_t seed);

// One head; every kernel is the identity; no bias.
server::LayerParameters IdentityLayer(int64_t features);

// The layer of the example in README: query, key and value kernels [3, 1, 4] of ones, and the identity as out kernel.
// Each output is the sum of the features of the attended token.
server::LayerParameters OnesLayer();

// The bytes of a safetensors file. REQUIRES: the names are different.
std::string Serialize(const Parameters& parameters);

}  // namespace attention::test
