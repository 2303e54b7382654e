#pragma once

#include <cstdint>
#include <functional>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "attention/v1/attention.pb.h"
#include "server/admission/call_gate.h"
#include "server/batching/batch_queue.h"
#include "server/weights/registry.h"

namespace attention::server {

// What all requests share. All of it must outlive the calls.
struct AttendContext {
  const Registry* registry = nullptr;
  WeightSetPtr no_weight_set;  // for requests that name no weight set: empty name, version 0, no layer
  BatchQueue* queue = nullptr;
  CallGate* gate = nullptr;  // entered by the services before they call StartAttend
  int64_t max_message_bytes = 0;
  int64_t max_inflight_bytes = 0;  // also the limit of the working memory of one request
  int num_threads = 1;             // of the engine
};

// One request, from a unary call or from a stream.
struct AttendCall {
  // Both stay alive until `done` has run. `response` is empty at first, and complete only if the status is OK.
  const v1::AttendRequest* request = nullptr;
  v1::AttendResponse* response = nullptr;

  absl::Time deadline = absl::InfiniteFuture();

  // See Task::cancelled.
  std::function<bool()> cancelled;

  // Ends the request with one of the statuses that attention.v1.AttentionService.Attend documents.
  absl::AnyInvocable<void(const absl::Status&)> done;
};

// Validates the request, finds its weight set, allocates the tensors of the response, which the engine fills in place,
// and queues the request. `done` runs exactly once, on this thread or another, possibly before this returns. Never
// blocks, never throws.
void StartAttend(const AttendContext& context, AttendCall call);

}  // namespace attention::server
