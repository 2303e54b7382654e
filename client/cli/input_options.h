#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/attention_client.h"

namespace attention::cli {

// What `attend` and `explain` send; AttendRequest and Mask document the meaning. Tensors are FILE, FILE:TENSOR or
// literals as the help text says; "" = left out.
struct InputOptions {
  std::string weight_set;
  VersionChoice which;  // of the weight set
  std::string inputs_q, inputs_k, inputs_v, bias;

  std::string mask;  // Mask::dense
  std::optional<Diagonal> causal;
  std::optional<SlidingWindow> window;
  std::vector<int64_t> kv_lengths, q_lengths;
  std::string q_segment_ids, kv_segment_ids;

  std::optional<HeadLayout> heads;
  std::optional<float> scale, softcap;
  EmptyRows empty_rows = EmptyRows::kUniform;
  std::optional<DataType> output_dtype, compute_dtype;
  std::string request_id;
  int32_t priority = 0;
};

}  // namespace attention::cli
