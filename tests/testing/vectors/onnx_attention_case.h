#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "attention/v1/attention.pb.h"
#include "client/attention_client.h"
#include "tests/testing/matchers.h"
#include "tests/testing/vectors/vectors.h"

namespace attention::test {

// One of ONNX's tests of its Attention operator, as attention without projections.
struct OnnxAttentionCase {
  // The line of the formula that qk_matmul_output_mode names, by its number there.
  enum class Line { kScores = 0, kCappedScores = 1, kMaskedScores = 2, kAttnWeights = 3 };

  std::string name;
  v1::AttendRequest request;
  Expected output;
  Line line = Line::kScores;
  std::optional<Expected> expected_line;  // only if the case compares a line; the request then returns it
};

// Reads a file of onnx-attention/. The past is put before k and v; a mask whose last axis is shorter than the keys
// hides the rest; rows without a visible key are zeros. INVALID_ARGUMENT if a tensor is missing, if the joined keys and
// values differ from ONNX's, or if the case has an unknown attribute or tensor.
absl::StatusOr<OnnxAttentionCase> ReadOnnxAttentionCase(const TensorFile& file, const std::string& name);

// The line of the formula that the case compares, taken from the reply; null if the reply has no such line. Without a
// soft cap the capped scores are the scores.
const Tensor* LineOf(const OnnxAttentionCase& onnx_case, const AttendReply& reply);

}  // namespace attention::test
