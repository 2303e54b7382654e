#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "attention/v1/attention.pb.h"
#include "server/checkpoint/tensor.h"
#include "server/engine/attention_call.h"
#include "server/engine/layer.h"

namespace attention::server {

// One of inputs_q, inputs_k and inputs_v. Points into the request.
struct Input {
  absl::string_view field;
  absl::string_view source;  // the field that holds the tensor: another one if `field` is absent
  TensorView view = {};
  absl::Span<const int64_t> batch = {};
  int64_t length = 0;
  int64_t features = 0;  // of one row; without a layer, heads × head_dim
};

// The inputs of one request, which agree with each other and with the layer or the head layout.
struct Inputs {
  Input q, k, v;
  HeadShape heads;
  InputSharing sharing = InputSharing::kNone;
  HeadAxes head_axes = HeadAxes::kLengthHeads;
  Shape output;  // the axes of the output after the batch axes
  int64_t output_features = 0;
};

// Validates the three inputs and AttendRequest.heads. `layer` is null for a request without a weight set; then the
// heads are axes of the inputs, as AttendRequest.heads says.
//
// Errors: INVALID_ARGUMENT with the field ("inputs_k: expected kv_length 7 as in inputs_v, got 8").
absl::StatusOr<Inputs> CheckInputs(const v1::AttendRequest& request, const LayerShape* layer);

}  // namespace attention::server
