#pragma once

#include <grpcpp/server_builder.h>

#include <cstdint>

#include "absl/time/time.h"

namespace attention::server {

// What one connection may do, and when it is closed.
struct ConnectionOptions {
  // A peer that is silent for `keepalive_time` is pinged, and its connection is closed if it does not answer within
  // `keepalive_timeout`: its calls, and their memory, would otherwise last for hours.
  absl::Duration keepalive_time = absl::Seconds(60);
  absl::Duration keepalive_timeout = absl::Seconds(20);

  // A connection without calls is closed after this time.
  absl::Duration max_idle = absl::Minutes(5);

  // A connection of this age is closed once its calls have ended, at the latest after `max_age_grace`. 0: none is. Load
  // balancers that choose a server for each connection need it.
  absl::Duration max_age = absl::ZeroDuration();
  absl::Duration max_age_grace = absl::Seconds(10);

  // Calls at the same time on one connection. A client waits with further ones.
  int max_concurrent_calls = 4096;

  // Metadata of one call. Above the first limit the call ends with RESOURCE_EXHAUSTED. Above the second one, gRPC
  // closes the connection, and all its calls end.
  int64_t max_call_metadata_bytes = 16 << 10;
  int64_t max_metadata_bytes = 1 << 20;

  // Memory of gRPC for all messages that are being received.
  int64_t max_receive_bytes = int64_t{2} << 30;
};

void SetConnectionOptions(const ConnectionOptions& options, grpc::ServerBuilder& builder);

}  // namespace attention::server
