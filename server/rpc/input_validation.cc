#include "server/rpc/input_validation.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/rpc/head_layout.h"
#include "server/rpc/tensor_validation.h"

namespace attention::server {
namespace {

absl::Status ReadInput(absl::string_view field, const v1::Tensor& tensor, Input& input) {
  const absl::StatusOr<TensorView> view = CheckTensor(field, tensor, WantedDType::kFloat);
  if (!view.ok()) return view.status();
  input = {.field = field, .view = *view};
  return absl::OkStatus();
}

absl::Status ReadInputs(const v1::AttendRequest& request, Inputs& inputs) {
  if (!request.has_inputs_q()) return absl::InvalidArgumentError("inputs_q: missing, wanted a tensor");
  if (request.has_inputs_v() && !request.has_inputs_k()) {
    return absl::InvalidArgumentError("inputs_v: given without inputs_k, wanted both or inputs_k alone");
  }
  if (auto status = ReadInput("inputs_q", request.inputs_q(), inputs.q); !status.ok()) return status;
  inputs.k = {.field = "inputs_k (left out, so inputs_q)", .view = inputs.q.view};
  inputs.v = {.field = "inputs_v (left out, so inputs_q)", .view = inputs.q.view};
  if (!request.has_inputs_k()) return absl::OkStatus();
  if (auto status = ReadInput("inputs_k", request.inputs_k(), inputs.k); !status.ok()) return status;
  inputs.v = {.field = "inputs_v (left out, so inputs_k)", .view = inputs.k.view};
  return request.has_inputs_v() ? ReadInput("inputs_v", request.inputs_v(), inputs.v) : absl::OkStatus();
}

// [batch…, length, features], with the features of a kernel.
absl::Status PlaceInput(int64_t features, absl::string_view kernel, Input& input) {
  const absl::Span<const int64_t> shape = input.view.shape;
  if (shape.size() < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat(input.field, ": shape ", ShapeString(shape), ", wanted [batch…, length, features]"));
  }
  if (shape.back() != features) {
    return absl::InvalidArgumentError(absl::StrCat(input.field, ": shape ", ShapeString(shape), " has ", shape.back(),
                                                   " features, wanted ", features, ", axis 0 of ", kernel));
  }
  input.batch = shape.first(shape.size() - 2);
  input.length = shape[shape.size() - 2];
  return absl::OkStatus();
}

absl::Status PlaceProjected(const LayerShape& layer, Inputs& inputs) {
  if (auto status = PlaceInput(layer.in_features, "query_kernel", inputs.q); !status.ok()) return status;
  if (auto status = PlaceInput(layer.in_k_features, "key_kernel", inputs.k); !status.ok()) return status;
  if (auto status = PlaceInput(layer.in_v_features, "value_kernel", inputs.v); !status.ok()) return status;
  inputs.heads = layer.heads;
  inputs.output = {inputs.q.length, layer.out_features};
  return absl::OkStatus();
}

absl::Status Place(const v1::AttendRequest& request, const LayerShape* layer, Inputs& inputs) {
  if (layer == nullptr) return PlaceHeads(request, inputs);
  if (request.has_heads()) {
    return absl::InvalidArgumentError("heads: given with a weight set, wanted without one");
  }
  return PlaceProjected(*layer, inputs);
}

absl::Status CheckBatch(const Input& input, const Input& q) {
  if (input.batch == q.batch) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(input.field, ": batch ", ShapeString(input.batch),
                                                 " differs from inputs_q batch ", ShapeString(q.batch)));
}

}  // namespace

absl::StatusOr<Inputs> CheckInputs(const v1::AttendRequest& request, const LayerShape* layer) {
  Inputs inputs;
  if (auto status = ReadInputs(request, inputs); !status.ok()) return status;
  if (auto status = Place(request, layer, inputs); !status.ok()) return status;
  if (auto status = CheckBatch(inputs.k, inputs.q); !status.ok()) return status;
  if (auto status = CheckBatch(inputs.v, inputs.q); !status.ok()) return status;
  if (inputs.k.length != inputs.v.length) {
    return absl::InvalidArgumentError(
        absl::StrCat("inputs_k: kv_length ", inputs.k.length, " differs from inputs_v kv_length ", inputs.v.length));
  }
  return inputs;
}

}  // namespace attention::server
