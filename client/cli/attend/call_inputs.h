#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "client/attention_client.h"
#include "client/cli/options.h"

namespace attention::cli {

// Reads a tensor from a nested list on the command line, in JSON: "[[[1, 1, 1], [1, 1, 1]]]".
//
// `dtype` FLOAT32 takes numbers, -inf, inf and nan; INT64 takes integers; BOOL takes true, false, 1 and 0. All lists of
// one depth must have the same length; at most 8 axes. INVALID_ARGUMENT says what is wrong with the text.
absl::StatusOr<Tensor> ParseLiteral(const std::string& text, DataType dtype);

// The tensors of one call, from files or nested lists, and the request that points to them.
class CallInputs {
 public:
  // Errors of ReadTensor and ParseLiteral, prefixed with the field.
  static absl::StatusOr<CallInputs> Read(const InputOptions& options);

  // Valid until this object is moved or destroyed.
  AttendRequest request() const;

 private:
  InputOptions options_;
  Tensor inputs_q_;
  std::optional<Tensor> inputs_k_, inputs_v_, bias_, mask_, q_segment_ids_, kv_segment_ids_;
};

// The options that are not tensors. Points into `options`, which must outlive the request.
AttendRequest RequestWithoutTensors(const InputOptions& options);

}  // namespace attention::cli
