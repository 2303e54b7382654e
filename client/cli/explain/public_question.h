#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/attention_client.h"
#include "client/cli/explain/explain_steps.h"

namespace attention::cli {

// The question that this service answers: a layer takes (inputs_q, inputs_kv), and its caller has (src, dst). Which
// goes where, and why do his own numbers differ from both?
struct PublicQuestion {
  Tensor src;  // [1, 2, 3], [[[2, 1, 1], [1, 1, 1]]]
  Tensor dst;  // [1, 2, 3], ones
};

PublicQuestion MakePublicQuestion();

// Both calls explained: `from_dst` has inputs_q = dst and inputs_k = src, `from_src` the other way round. Then the
// results beside each other, and what became of the value that the question found by hand.
absl::StatusOr<std::string> ExplainPublicQuestion(const ExplainedCall& from_dst, const ExplainedCall& from_src,
                                                  const PrintLimits& limits);

// One element of the context of a query row, by the server's scores and values but without any rounding to float32.
// REQUIRES: the spot is in the call, kv_length > 0, and element < head_dim.
double Float64Context(const ExplainedCall& call, const Spot& spot, int64_t element);

// The same element as a matrix unit gives it that rounds the softmax weights to bfloat16 (and adds up in float32).
double BFloat16Context(const ExplainedCall& call, const Spot& spot, int64_t element);

}  // namespace attention::cli
