#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "client/weights.h"

namespace attention::cli {

// One load test. Without `rate` it is a closed loop: `concurrency` calls are in flight, each followed by the next when
// it ends. With `rate` it is an open loop: requests have a time at which they are due, whatever the server does, and
// their latency counts from then, so that a server which falls behind cannot hide it.
struct BenchOptions {
  std::string weight_set;
  VersionChoice which = {};

  double rate = 0;  // requests a second; 0 = closed loop

  // Closed loop: calls in flight, default 1. Open loop: the most that may be, default 1000; a request that is due
  // meanwhile waits, and its latency counts the wait.
  std::optional<int64_t> concurrency;

  int connections = 1;  // over which the calls go in turn

  // Each request asks [batch, q_length, in_features]. With kv_length also inputs_k [batch, kv_length, in_k_features]
  // (and inputs_v where its width differs); without, self-attention.
  int64_t batch = 1;
  int64_t q_length = 16;
  std::optional<int64_t> kv_length;

  // Each request has an even random number of rows instead, from 1 to q_length, and from 1 to kv_length; the same ones
  // on every run.
  bool random_lengths = false;

  // Requests that are sent during `warmup` are not counted; `duration` comes after it. It ends earlier if
  // `requests` of them were sent; 0 = no such bound.
  std::chrono::nanoseconds warmup = std::chrono::seconds(1);
  std::chrono::nanoseconds duration = std::chrono::seconds(5);
  int64_t requests = 0;

  // Instead of a load: where the time of one request goes that meets no other. One call is in flight at a time.
  bool breakdown = false;

  bool json = false;

  int64_t in_flight() const { return concurrency.value_or(rate > 0 ? 1000 : 1); }
};

}  // namespace attention::cli
