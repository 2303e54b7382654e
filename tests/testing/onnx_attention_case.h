#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "attention/v1/attention.pb.h"
#include "client/attention_client.h"
#include "tests/testing/matchers.h"
#include "tests/testing/vectors.h"

namespace attention::test {

// One of ONNX's tests of its Attention operator as attention without projections.
struct OnnxAttentionCase {
  // The line of the formula that qk_matmul_output_mode names, by its number there.
  enum class Line { kScores = 0, kCappedScores = 1, kMaskedScores = 2, kAttnWeights = 3 };

  std::string name;
  v1::AttendRequest request;
  Expected output;
  Line line = Line::kScores;
  std::optional<Expected> wanted_line;  // asked for, if the case has it
};

// Reads a file of onnx-attention/: the past is put before k and v, a mask whose last axis is shorter than the keys
// hides the rest, rows without a visible key are zeros. INVALID_ARGUMENT if a tensor is missing, if the joined keys and
// values are not those that ONNX wants, or if the case has an attribute or tensor that this does not know.
absl::StatusOr<OnnxAttentionCase> ReadOnnxAttentionCase(const TensorFile& file, const std::string& name);

// The line of the formula that the case compares, as the reply has it; null if it has not. Where no soft cap is set the
// capped scores are the scores.
const Tensor* LineOf(const OnnxAttentionCase& wanted, const AttendReply& reply);

}  // namespace attention::test
