#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/engine/attention_call.h"
#include "server/engine/layer.h"
#include "server/weights/self_test.h"

namespace attention::server {

struct SelfTestContext {
  std::function<absl::Status(const Layer& layer, const AttentionCall& call)> compute;
  int64_t max_message_bytes = 0;
  int64_t max_inflight_bytes = 0;  // what computing may take
};

// Computes a self-test as the request that it stands for: by the same rules, within the same limits.
// INVALID_ARGUMENT and RESOURCE_EXHAUSTED as of such a request; else what `compute` says.
absl::StatusOr<SelfTestOutput> AttendSelfTest(const SelfTestContext& context, const Layer& layer,
                                              const SelfTestTensors& test);

}  // namespace attention::server
