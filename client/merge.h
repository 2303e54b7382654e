#pragma once

#include "absl/status/statusor.h"
#include "client/attention_client.h"

namespace attention {

// Attention over one part of the keys: what a request with return_log_sum_exp gives as context and log_sum_exp.
struct KeyShard {
  Tensor context;      // the output of a request without a weight set, or Intermediates::context
  Tensor log_sum_exp;  // [batch…, num_heads, q_length]
};

// Attention over the keys of both shards together, as if one request had held them all: the contexts are averaged with
// the weights exp(log_sum_exp) of their sides, in float64, and come back as float32. It is associative, so any number
// of shards can be folded.
//
// `axes` says where the heads stand in both contexts, as in the request; that of Intermediates is kLengthHeads.
//
// A side that sees no key (log_sum_exp −∞) has no part in the result, whatever stands in its context. Where neither
// side sees one the context is 0 (as EmptyRows::kZero) and log_sum_exp −∞.
//
// INVALID_ARGUMENT if the shapes do not fit each other or `axes`.
absl::StatusOr<KeyShard> MergeKeyShards(const KeyShard& a, const KeyShard& b, HeadAxes axes = HeadAxes::kLengthHeads);

}  // namespace attention
