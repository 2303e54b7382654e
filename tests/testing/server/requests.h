#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "attention/v1/attention.pb.h"
#include "server/engine/layer.h"
#include "tests/testing/matchers.h"

namespace attention::test {

// The request of the public question for OnesLayer: inputs_q = dst, inputs_k = src.
v1::AttendRequest QuestionRequest(const std::string& weight_set);

// The output for QuestionRequest.
Expected QuestionAnswer();

// A request for OnesLayer in which every element is `value`.
v1::AttendRequest ConstantRequest(const std::string& weight_set, float value);

// The output for ConstantRequest: 3 × value.
Expected ConstantAnswer(float value);

// The random functions do not use the standard's distributions, which differ between libraries. The same state of
// `random` always gives the same result.

// Uniform in [low, high].
int64_t DrawInteger(int64_t low, int64_t high, std::mt19937& random);

// Uniform in [-2, 2].
std::vector<float> DrawNumbers(int64_t count, std::mt19937& random);

struct RandomLimits {
  int64_t max_q_length = 80;
  int64_t max_kv_length = 160;
};

// Draws a request for a layer, without a mask: no, one or two batch axes, lengths up to the limits, sometimes
// self-attention (if the layer's feature sizes allow it), with or without inputs_v.
v1::AttendRequest DrawRequest(const server::LayerShape& layer, const RandomLimits& limits, std::mt19937& random);

// Draws a request without a weight set, in a random head layout.
v1::AttendRequest DrawRequest(const server::HeadShape& heads, const RandomLimits& limits, std::mt19937& random);

// Sets every option that adds a tensor to the reply. top_k is 3, or kv_length if that is smaller.
void AskForEverything(const server::HeadShape& heads, v1::AttendRequest& request);

}  // namespace attention::test
