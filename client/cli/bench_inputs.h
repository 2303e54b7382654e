#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "client/attention_client.h"
#include "client/cli/bench_options.h"

namespace attention::cli {

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
