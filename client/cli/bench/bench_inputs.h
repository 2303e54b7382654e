#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "client/attention_client.h"
#include "client/cli/options.h"

namespace attention::cli {

// The tensors of a load test's requests: normally distributed, the same on every run.
struct BenchInputs {
  Tensor inputs_q;
  std::optional<Tensor> inputs_k, inputs_v;
};

// As long as the longest request. RESOURCE_EXHAUSTED if that exceeds the size of a message.
absl::StatusOr<BenchInputs> MakeBenchInputs(const BenchOptions& options, const WeightSetInfo& info);

// One request of a load test. Points into the options and the inputs, which must outlive it.
class BenchRequest {
 public:
  BenchRequest(const BenchOptions& options, const BenchInputs& inputs, int64_t index);

  BenchRequest(const BenchRequest&) = delete;
  BenchRequest& operator=(const BenchRequest&) = delete;

  const AttendRequest& request() const { return request_; }

 private:
  std::vector<int64_t> q_shape_, k_shape_, v_shape_;
  AttendRequest request_;
};

}  // namespace attention::cli
