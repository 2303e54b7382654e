#pragma once

#include <optional>
#include <string>

#include "client/cli/attend/call_inputs.h"
#include "client/cli/explain/explain_steps.h"
#include "client/cli/explain/public_question.h"

namespace attention::cli {

inline Tensor Literal(const std::string& text, DataType dtype = DataType::kFloat32) {
  return ParseLiteral(text, dtype).value();
}

// A request and the reply of a server, written by hand.
struct Example {
  std::optional<WeightSetInfo> weight_set = {};
  Tensor inputs_q = {};
  std::optional<Tensor> inputs_k = {}, inputs_v = {}, mask = {}, bias = {}, q_segment_ids = {}, kv_segment_ids = {};
  AttendRequest options = {};  // everything except tensors
  AttendReply reply = {};

  absl::StatusOr<ExplainedCall> Call() const {
    AttendRequest request = options;
    request.inputs_q = inputs_q;
    if (inputs_k) request.inputs_k = *inputs_k;
    if (inputs_v) request.inputs_v = *inputs_v;
    if (bias) request.bias = *bias;
    if (mask) request.mask.dense = *mask;
    if (q_segment_ids) request.mask.q_segment_ids = *q_segment_ids;
    if (kv_segment_ids) request.mask.kv_segment_ids = *kv_segment_ids;
    return ExplainedCall::Create(weight_set, request, reply);
  }
  std::string Explain(const ExplainSettings& settings = {}) const { return ExplainSteps(*Call(), settings).value(); }
};

inline WeightSetInfo OnesWeightSet() {
  WeightSetInfo info;
  info.name = "demo/ones";
  info.in_features = info.in_k_features = info.in_v_features = 3;
  info.num_heads = info.num_kv_heads = 1;
  info.head_dim = info.value_head_dim = info.out_features = 4;
  info.parameters = {{"query/bias", "float32", {1, 4}}, {"query/kernel", "float32", {3, 1, 4}}};
  return info;
}

// The public question with queries from dst. Scores 24 and 18, so the weights are 1/(1+exp(-6)) and the rest.
inline Example QueriesFromDst() {
  const PublicQuestion question = MakePublicQuestion();
  Example example{.weight_set = OnesWeightSet(), .inputs_q = question.dst, .inputs_k = question.src};
  example.reply.version = 5;
  example.reply.intermediates = {.query = Literal("[[[[3, 3, 3, 3]], [[3, 3, 3, 3]]]]"),
                                 .key = Literal("[[[[4, 4, 4, 4]], [[3, 3, 3, 3]]]]"),
                                 .value = Literal("[[[[4, 4, 4, 4]], [[3, 3, 3, 3]]]]"),
                                 .scores = Literal("[[[[24, 18], [24, 18]]]]"),
                                 .masked_scores = Literal("[[[[24, 18], [24, 18]]]]"),
                                 .context = Literal("[[[[3.9975274, 3.9975274, 3.9975274, 3.9975274]],"
                                                    "  [[3.9975274, 3.9975274, 3.9975274, 3.9975274]]]]")};
  example.reply.attn_weights = Literal("[[[[0.99752736, 0.0024726233], [0.99752736, 0.0024726233]]]]");
  example.reply.output = Literal(
      "[[[3.9975274, 3.9975274, 3.9975274, 3.9975274],"
      "  [3.9975274, 3.9975274, 3.9975274, 3.9975274]]]");
  return example;
}

// The public question with queries from src: both keys are equal, and so are the weights and the values.
inline Example QueriesFromSrc() {
  const PublicQuestion question = MakePublicQuestion();
  Example example{.weight_set = OnesWeightSet(), .inputs_q = question.src, .inputs_k = question.dst};
  example.reply.intermediates = {.query = Literal("[[[[4, 4, 4, 4]], [[3, 3, 3, 3]]]]"),
                                 .key = Literal("[[[[3, 3, 3, 3]], [[3, 3, 3, 3]]]]"),
                                 .value = Literal("[[[[3, 3, 3, 3]], [[3, 3, 3, 3]]]]"),
                                 .scores = Literal("[[[[24, 24], [18, 18]]]]"),
                                 .masked_scores = Literal("[[[[24, 24], [18, 18]]]]"),
                                 .context = Literal("[[[[3, 3, 3, 3]], [[3, 3, 3, 3]]]]")};
  example.reply.attn_weights = Literal("[[[[0.5, 0.5], [0.5, 0.5]]]]");
  example.reply.output = Literal("[[[3, 3, 3, 3], [3, 3, 3, 3]]]");
  return example;
}

// Self-attention without batch axes, two heads of one number; row 0 sees only itself, row 1 sees nothing.
inline Example TwoHeadsWithMask() {
  WeightSetInfo info;
  info.name = "two";
  info.in_features = info.in_k_features = info.in_v_features = 1;
  info.num_heads = info.num_kv_heads = 2;
  info.head_dim = info.value_head_dim = 1;
  info.out_features = 1;
  Example example{.weight_set = info,
                  .inputs_q = Literal("[[1], [2]]"),
                  .mask = Literal("[[true, false], [false, false]]", DataType::kBool)};
  example.reply.intermediates = {.query = Literal("[[[1], [10]], [[2], [20]]]"),
                                 .key = Literal("[[[1], [-1]], [[2], [-2]]]"),
                                 .value = Literal("[[[5], [6]], [[7], [8]]]"),
                                 .scores = Literal("[[[1, 2], [2, 4]], [[-10, -20], [-20, -40]]]"),
                                 .masked_scores = Literal("[[[1, -inf], [-inf, -inf]], [[-10, -inf], [-inf, -inf]]]"),
                                 .context = Literal("[[[5], [6]], [[6], [7]]]")};
  example.reply.attn_weights = Literal("[[[1, 0], [0.5, 0.5]], [[1, 0], [0.5, 0.5]]]");
  example.reply.output = Literal("[[11], [13]]");
  return example;
}

// Attention without projections: one query of two heads that share one head of keys. The query is 2 and 4, the two keys
// are 3 and -1, and the values 1, 0 and 0, 1, so that the context equals the weights. No mask, no options.
inline Example SharedKeys() {
  Example example{.inputs_q = Literal("[[[2], [4]]]"),
                  .inputs_k = Literal("[[[3]], [[-1]]]"),
                  .inputs_v = Literal("[[[1, 0]], [[0, 1]]]")};
  example.options.heads = HeadLayout{.num_heads = 2, .num_kv_heads = 1, .axes = HeadAxes::kLengthHeads};
  example.reply.intermediates = {.scores = Literal("[[[6, -2]], [[12, -4]]]"),
                                 .masked_scores = Literal("[[[6, -2]], [[12, -4]]]"),
                                 .context = Literal("[[[0.99966466, 0.00033535013], [0.9999999, 1.12535162e-07]]]")};
  example.reply.attn_weights = Literal("[[[0.99966466, 0.00033535013]], [[0.9999999, 1.12535162e-07]]]");
  example.reply.output = example.reply.intermediates->context;
  return example;
}

}  // namespace attention::cli
