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

// What every request needs; all of it outlives the calls.
struct AttendContext {
  const Registry* registry = nullptr;
  WeightSetPtr unprojected;  // of requests that name no weight set: no name, version 0, no layer
  BatchQueue* queue = nullptr;
  CallGate* gate = nullptr;  // passed by whoever receives requests, not by StartAttend
  int64_t max_message_bytes = 0;
  int64_t max_inflight_bytes = 0;  // also what computing one request may take
  int num_threads = 1;             // of the engine
};

// One request on its way through the server, whichever way it came in.
struct AttendCall {
  // Both stay until `done` has run. `response` is empty, and is only complete if the status is OK.
  const v1::AttendRequest* request = nullptr;
  v1::AttendResponse* response = nullptr;

  absl::Time deadline = absl::InfiniteFuture();

  // As Task::cancelled.
  std::function<bool()> cancelled;

  // Ends the request; the status is the one that attention.v1.AttentionService.Attend documents.
  absl::AnyInvocable<void(const absl::Status&)> done;
};

// Checks the request, finds its weight set, makes room in the response, which the engine fills in place, and queues it.
// `done` runs exactly once, on this thread or another, possibly before this returns. Never blocks, never throws.
void StartAttend(const AttendContext& context, AttendCall call);

}  // namespace attention::server
