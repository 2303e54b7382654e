#pragma once

#include <cstdint>
#include <random>
#include <string>

#include "attention/v1/attention.pb.h"
#include "server/engine/layer.h"
#include "tests/testing/matchers.h"
#include "tests/testing/reference_attention.h"

namespace attention::test {

// The public question's request for OnesLayer: inputs_q = dst, inputs_k = src.
v1::AttendRequest QuestionRequest(const std::string& weight_set);

// Its answer.
Expected QuestionAnswer();

// A request for OnesLayer in which every number is `value`.
v1::AttendRequest ConstantRequest(const std::string& weight_set, float value);

// Its answer: 3 × value.
Expected ConstantAnswer(float value);

// A request and what it asks for as the reference takes it.
struct RandomCall {
  v1::AttendRequest request;
  ReferenceInputs reference;
};

struct RandomLimits {
  int64_t max_q_length = 80;
  int64_t max_kv_length = 160;
};

// Draws a request for a layer: none, one or two batch axes, lengths up to the limits, now and then self-attention (if
// the layer's widths allow), inputs_v left out or not, and a mask of a random shape or none. The same for the same
// `random`.
RandomCall DrawCall(const server::LayerShape& layer, const RandomLimits& limits, std::mt19937& random);

}  // namespace attention::test
