#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "attention/v1/attention.pb.h"
#include "server/checkpoint/tensor.h"
#include "server/engine/attention_call.h"
#include "server/engine/layer.h"

namespace attention::server {

// One of the three inputs. Points into the request.
struct Input {
  absl::string_view field = {};  // as messages name it
  TensorView view = {};
  absl::Span<const int64_t> batch = {};
  int64_t length = 0;
};

// The inputs of one request, which agree with each other and with the layer or the head layout.
struct Inputs {
  Input q, k, v;  // what was left out has the tensor of the one before, under its own name
  HeadShape heads;
  HeadAxes head_axes = HeadAxes::kLengthHeads;
  Shape output;  // axes of the output behind those of the batch
};

// Finds the heads in the inputs of a request without a weight set, as AttendRequest.heads says: fills in the batch axes
// and the length of each input, the heads, and the axes of the output. REQUIRES: fields and views are there.
//
// INVALID_ARGUMENT, with the field, for a layout that is missing or wrong by itself, an input that does not have its
// axes or heads, and key heads that do not fit those of the query.
absl::Status PlaceHeads(const v1::AttendRequest& request, Inputs& inputs);

// Checks the three inputs, and AttendRequest.heads. `layer` is null for a request without a weight set.
//
// INVALID_ARGUMENT with the field, what was wanted and what came: "inputs_k: kv_length 7 differs from inputs_v
// kv_length 8".
absl::StatusOr<Inputs> CheckInputs(const v1::AttendRequest& request, const LayerShape* layer);

}  // namespace attention::server
