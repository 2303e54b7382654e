#pragma once

#include <cstdint>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "attention/v1/attention.pb.h"
#include "server/admission/admission.h"
#include "server/batching/batch_queue.h"
#include "server/engine/stop_token.h"
#include "server/weights/registry.h"

namespace attention::server {

// What all requests share. All of it must outlive the calls.
struct AttendContext {
  const Registry* registry = nullptr;
  WeightSetPtr no_weight_set;  // for requests that name no weight set: empty name, version 0, no layer
  BatchQueue* queue = nullptr;
  Admission* admission = nullptr;
  int64_t max_message_bytes = 0;
  int64_t max_request_cost = 0;  // CallCost of one request; 0: no limit
  int num_threads = 1;           // of the engine
};

// One request, from a unary call or from a stream.
struct AttendCall {
  // Both stay alive until `done` has run. `response` is empty at first, and complete only if the status is OK.
  const v1::AttendRequest* request = nullptr;
  v1::AttendResponse* response = nullptr;

  // Both outlive `done`. The ticket was entered with RequestBytes of the request.
  Ticket* ticket = nullptr;
  const StopToken* stop = nullptr;

  // Ends the request with one of the statuses that attention.v1.AttentionService.Attend documents.
  absl::AnyInvocable<void(const absl::Status&)> done;
};

// Memory of a request: its message, unknown fields included, and what validation makes of it.
int64_t RequestBytes(const v1::AttendRequest& request);

// Validates the request, finds its weight set, reserves and allocates the tensors of the response, which the engine
// fills in place, and queues the request. `done` runs exactly once, on this thread or another, possibly before this
// returns. Never blocks, never throws.
void StartAttend(const AttendContext& context, AttendCall call);

}  // namespace attention::server
