#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "attention/v1/attention.pb.h"
#include "server/engine/attention_call.h"
#include "server/engine/layer.h"
#include "server/rpc/reply_plan.h"

// The rules of attention.v1.AttendRequest as pure functions. A request that passes them can be computed, so a bad
// request never fails a batch that it shares with others. Two rules are checked later, because only the computation
// finds out: with EMPTY_ROWS_ERROR every row sees a key, and no result exceeds its type (reply_range.h).
namespace attention::server {

// A valid request. Its tensors are views into the request message; only segment ids are copied.
struct CheckedRequest {
  // Complete except for the memory of the outputs and `empty_rows`.
  AttentionCall call;
  ReplyPlan reply;

  // Memory of the request until it ends: its tensors and lists, and what validation allocated for mask and bias.
  int64_t request_bytes = 0;

  // True if the reply has no elements, because batch or q_length is 0. Then the request must be answered without the
  // engine, and no code may loop over `call`: its other sizes can be huge ([2^40, 0, 3] is a tensor of no bytes).
  bool nothing_to_compute() const { return reply.bytes == 0; }
};

// Validates what does not depend on the weight set: request_id has at most 128 bytes; weight_set is a valid name or
// empty; version and alias are not set without weight_set, and not both. INVALID_ARGUMENT.
absl::Status CheckNames(const v1::AttendRequest& request);

// Validates tensors, mask and options against the layer, which is null for a request without a weight set, and the size
// of the reply against `max_message_bytes`.
//
// Errors: INVALID_ARGUMENT with the field ("inputs_k: expected kv_length 7 as in inputs_v, got 8"); RESOURCE_EXHAUSTED
// for a reply above the limit.
absl::StatusOr<CheckedRequest> CheckRequest(const v1::AttendRequest& request, const LayerShape* layer,
                                            int64_t max_message_bytes);

}  // namespace attention::server
