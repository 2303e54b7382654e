#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "attention/v1/attention.pb.h"
#include "server/engine/layer.h"
#include "tests/testing/matchers.h"

namespace attention::test {

// The public question's request for OnesLayer: inputs_q = dst, inputs_k = src.
v1::AttendRequest QuestionRequest(const std::string& weight_set);

// Its answer.
Expected QuestionAnswer();

// A request for OnesLayer in which every number is `value`.
v1::AttendRequest ConstantRequest(const std::string& weight_set, float value);

// Its answer: 3 × value.
Expected ConstantAnswer(float value);

// Random numbers are drawn by hand everywhere here, since the standard's distributions differ between libraries: the
// same for the same `random`.

// Even in [low, high].
int64_t DrawInteger(int64_t low, int64_t high, std::mt19937& random);

// Even in [-2, 2].
std::vector<float> DrawNumbers(int64_t count, std::mt19937& random);

struct RandomLimits {
  int64_t max_q_length = 80;
  int64_t max_kv_length = 160;
};

// Draws a request for a layer, without a mask: none, one or two batch axes, lengths up to the limits, now and then
// self-attention (if the layer's widths allow), inputs_v left out or not.
v1::AttendRequest DrawRequest(const server::LayerShape& layer, const RandomLimits& limits, std::mt19937& random);

// The same without projections, in a random layout of the heads.
v1::AttendRequest DrawRequest(const server::HeadShape& heads, const RandomLimits& limits, std::mt19937& random);

// Sets every option that asks for one more tensor in the reply; top_k is 3, or kv_length if that is less.
void AskForEverything(const server::HeadShape& heads, v1::AttendRequest& request);

}  // namespace attention::test
