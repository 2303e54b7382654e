#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/attention_client.h"
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

// The numbers that the requests of a load test send: normally distributed, the same on every run.
struct BenchInputs {
  Tensor inputs_q;
  std::optional<Tensor> inputs_k, inputs_v;
};

// As long as the longest request. RESOURCE_EXHAUSTED beyond what one message can hold.
absl::StatusOr<BenchInputs> MakeBenchInputs(const BenchOptions& options, const WeightSetInfo& info);

// One request of a load test. Points into the options and the inputs, which must stay.
class BenchRequest {
 public:
  // The request number `index`.
  BenchRequest(const BenchOptions& options, const BenchInputs& inputs, int64_t index);

  BenchRequest(const BenchRequest&) = delete;
  BenchRequest& operator=(const BenchRequest&) = delete;

  const AttendRequest& request() const { return request_; }

 private:
  std::vector<int64_t> q_shape_, k_shape_, v_shape_;
  AttendRequest request_;
};

}  // namespace attention::cli
