#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "attention/v1/attention.pb.h"
#include "server/engine/attention_call.h"
#include "server/engine/layer.h"
#include "server/rpc/reply_plan.h"

// Every rule that attention.v1.AttendRequest states, as pure functions. What passes here can be computed: no later step
// refuses it for what it says, and one bad request never reaches a batch that it shares with good ones. (But for
// EMPTY_ROWS_ERROR: which rows see no key is found by computing them.)
namespace attention::server {

// A request that keeps every rule. The bytes of its tensors stay in the request; only segment ids are copied.
struct CheckedRequest {
  // Complete except for the memory of the outputs and `empty_rows`.
  AttentionCall call;
  ReplyPlan reply;

  // Memory of the request while it is under way: its tensors and lists, and what was made of its mask and bias.
  int64_t request_bytes = 0;

  // A reply without a single element: batch or q_length is 0. To be answered at once; nothing may loop over `call`,
  // whose other sizes can be larger than any memory ([2^40, 0, 3] is a tensor of no bytes).
  bool nothing_to_compute() const { return reply.bytes == 0; }
};

// What can be checked before the weight set is known: that request_id has at most 128 bytes, weight_set is a name or
// empty, there is no version and no alias without one, and not both of these. INVALID_ARGUMENT.
absl::Status CheckNames(const v1::AttendRequest& request);

// Checks tensors, mask and options against the layer that they are meant for, null for a request without a weight set,
// and the reply against `max_message_bytes`.
//
// Errors: INVALID_ARGUMENT with the field, what was wanted and what came ("inputs_k: kv_length 7 differs from inputs_v
// kv_length 8"); RESOURCE_EXHAUSTED for a reply above the limit.
absl::StatusOr<CheckedRequest> CheckRequest(const v1::AttendRequest& request, const LayerShape* layer,
                                            int64_t max_message_bytes);

}  // namespace attention::server
