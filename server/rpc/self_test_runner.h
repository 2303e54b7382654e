#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/checkpoint/layouts/layers.h"
#include "server/checkpoint/tensor.h"
#include "server/engine/engine.h"
#include "server/engine/layer.h"
#include "server/weights/loader.h"

namespace attention::server {

// The output of a layer for the inputs of a self-test: [batch…, q_length, out_features], row-major.
struct SelfTestOutput {
  Shape shape;
  std::vector<float> values;
};

// Compares as SelfTestRunner::Run documents. REQUIRES: `actual` has as many values as its shape.
absl::Status CompareWithSelfTest(const SelfTestOutput& actual, const SelfTestTensors& test);

// Runs each self-test as the request that its tensors describe, with the rules and limits of requests, on an engine of
// its own with one thread, so that self-tests do not take threads from requests. One thread at a time may use it.
class RequestSelfTestRunner final : public SelfTestRunner {
 public:
  struct Limits {
    int64_t max_message_bytes = 0;                    // of the reply
    int64_t max_inflight_bytes = 0;                   // of working memory
    const std::atomic<bool>* server_stops = nullptr;  // ends a computation; may be null
  };

  explicit RequestSelfTestRunner(const Limits& limits) : limits_(limits) {}

  absl::Status Run(const SelfTestTensors& test, const Layer& layer) override;

  // INVALID_ARGUMENT and RESOURCE_EXHAUSTED as for such a request; else the error of the engine.
  absl::StatusOr<SelfTestOutput> Compute(const SelfTestTensors& test, const Layer& layer);

 private:
  const Limits limits_;
  std::unique_ptr<Engine> engine_;  // created by the first self-test, because most checkpoints contain none
};

}  // namespace attention::server
