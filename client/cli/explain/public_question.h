#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/attention_client.h"
#include "client/cli/explain/explain_steps.h"

namespace attention::cli {

// The question that started this project: a layer takes (inputs_q, inputs_kv), and the caller has (src, dst). Which
// goes where, and why does neither result equal the one calculated by hand?
struct PublicQuestion {
  Tensor src;  // [1, 2, 3], [[[2, 1, 1], [1, 1, 1]]]
  Tensor dst;  // [1, 2, 3], ones
};

PublicQuestion MakePublicQuestion();

// Explains both calls: `from_dst` has inputs_q = dst and inputs_k = src, `from_src` the reverse. Then compares the
// results, and shows where the question's own result comes from.
absl::StatusOr<std::string> ExplainPublicQuestion(const ExplainedCall& from_dst, const ExplainedCall& from_src,
                                                  const PrintLimits& limits);

// One element of the context of a query row, calculated in float64 from the server's scores and values.
// REQUIRES: the spot is in the call, kv_length > 0, and element < head_dim.
double Float64Context(const ExplainedCall& call, const Spot& spot, int64_t element);

// The same element, with weights and values rounded to bfloat16 and the sum in float32.
double BFloat16Context(const ExplainedCall& call, const Spot& spot, int64_t element);

}  // namespace attention::cli
