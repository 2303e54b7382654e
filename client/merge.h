#pragma once

#include "absl/status/statusor.h"
#include "client/attention_client.h"

namespace attention {

// Attention over one part of the keys: the result of a request with return_log_sum_exp.
struct KeyShard {
  Tensor context;      // the output of a request without a weight set, or Intermediates::context
  Tensor log_sum_exp;  // [batch…, num_heads, q_length]
};

// Attention over the keys of both shards, as if one request had contained them all. The result is float32: the average
// of the contexts with weights proportional to exp(log_sum_exp), computed in float64. The operation is associative, so
// any number of shards can be merged one by one.
//
// `axes` is the axis order of both contexts, as in the request. Intermediates::context is kLengthHeads.
//
// A shard in which a query sees no key (log_sum_exp −∞) does not contribute to that query's result, even if its context
// is NaN or infinite. If a query sees no key in either shard, its context is 0 (as with EmptyRows::kZero) and its
// log_sum_exp −∞.
//
// INVALID_ARGUMENT, with the tensor's name, if the shapes do not match each other or `axes`.
absl::StatusOr<KeyShard> MergeKeyShards(const KeyShard& a, const KeyShard& b, HeadAxes axes = HeadAxes::kLengthHeads);

}  // namespace attention
