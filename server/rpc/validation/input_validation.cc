#include "server/rpc/validation/input_validation.h"

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "server/rpc/validation/tensor_validation.h"

namespace attention::server {
namespace {

// Where length and heads stand, counted from the last axis, which is 1.
struct AxisOrder {
  absl::string_view text;
  size_t axes;    // behind those of the batch
  size_t length;  // axis
  size_t heads;   // axis; 0: side by side with the features of each
  HeadAxes head_axes;
};

// By the numbers of v1::HeadLayout::Axes, from 1.
constexpr AxisOrder kOrders[] = {
    {"[batch…, length, heads × head_dim]", 2, 2, 0, HeadAxes::kLengthHeads},
    {"[batch…, length, heads, head_dim]", 3, 3, 2, HeadAxes::kLengthHeads},
    {"[batch…, heads, length, head_dim]", 3, 2, 3, HeadAxes::kHeadsLength},
};

// How many heads an input has, and the field that says so.
struct HeadCount {
  int64_t heads;
  absl::string_view field;
};

absl::Status CheckLayout(const v1::AttendRequest& request) {
  if (!request.has_heads()) {
    return absl::InvalidArgumentError("heads: missing, wanted with a request that names no weight set");
  }
  const v1::HeadLayout& heads = request.heads();
  if (heads.num_heads() < 1) {
    return absl::InvalidArgumentError(absl::StrCat("heads.num_heads: ", heads.num_heads(), ", wanted at least 1"));
  }
  if (heads.num_kv_heads() < 0 || (heads.num_kv_heads() > 0 && heads.num_heads() % heads.num_kv_heads() != 0)) {
    return absl::InvalidArgumentError(absl::StrCat("heads.num_kv_heads: ", heads.num_kv_heads(),
                                                   ", wanted a divisor of heads.num_heads ", heads.num_heads()));
  }
  if (heads.axes() == v1::HeadLayout::AXES_UNSPECIFIED || !v1::HeadLayout::Axes_IsValid(heads.axes())) {
    const auto number = static_cast<int>(heads.axes());
    return absl::InvalidArgumentError(absl::StrCat("heads.axes: ", number == 0 ? "unspecified" : absl::StrCat(number),
                                                   ", wanted LENGTH_FEATURES, LENGTH_HEADS or HEADS_LENGTH"));
  }
  return absl::OkStatus();
}

absl::Status Wrong(const Input& input, absl::string_view found) {
  return absl::InvalidArgumentError(absl::StrCat(input.field, ": shape ", ShapeString(input.view.shape), found));
}

// Returns the size of each head.
absl::StatusOr<int64_t> PlaceInput(const AxisOrder& order, const HeadCount& count, Input& input) {
  const absl::Span<const int64_t> shape = input.view.shape;
  if (shape.size() < order.axes) return Wrong(input, absl::StrCat(", wanted ", order.text));
  const auto axis = [&](size_t from_last) { return shape[shape.size() - from_last]; };
  input.batch = shape.first(shape.size() - order.axes);
  input.length = axis(order.length);
  if (order.heads == 0) {
    if (shape.back() > 0 && shape.back() % count.heads == 0) return shape.back() / count.heads;
    return Wrong(input, absl::StrCat(" has ", shape.back(), " features, wanted a positive multiple of ", count.field,
                                     " ", count.heads));
  }
  if (axis(order.heads) != count.heads) {
    return Wrong(input, absl::StrCat(" has ", axis(order.heads), " heads, wanted ", count.field, " ", count.heads,
                                     ", for axes ", order.text));
  }
  if (shape.back() == 0) return Wrong(input, " has head_dim 0, wanted at least 1");
  return shape.back();
}

// Fills in the sizes of the heads.
absl::Status PlaceInputs(const v1::HeadLayout& layout, const AxisOrder& order, Inputs& inputs) {
  HeadShape& heads = inputs.heads;
  heads.num_heads = layout.num_heads();
  heads.num_kv_heads = layout.num_kv_heads() == 0 ? layout.num_heads() : layout.num_kv_heads();
  const HeadCount q_heads{heads.num_heads, "heads.num_heads"};
  const HeadCount kv_heads{heads.num_kv_heads, layout.num_kv_heads() == 0 ? q_heads.field : "heads.num_kv_heads"};

  const absl::StatusOr<int64_t> head_dim = PlaceInput(order, q_heads, inputs.q);
  if (!head_dim.ok()) return head_dim.status();
  const absl::StatusOr<int64_t> k_head_dim = PlaceInput(order, kv_heads, inputs.k);
  if (!k_head_dim.ok()) return k_head_dim.status();
  const absl::StatusOr<int64_t> value_head_dim = PlaceInput(order, kv_heads, inputs.v);
  if (!value_head_dim.ok()) return value_head_dim.status();
  if (*k_head_dim != *head_dim) {
    return Wrong(inputs.k, absl::StrCat(" of ", heads.num_kv_heads, " heads has head_dim ", *k_head_dim, ", wanted ",
                                        *head_dim, ", that of inputs_q"));
  }
  heads.head_dim = *head_dim;
  heads.value_head_dim = *value_head_dim;
  return absl::OkStatus();
}

// Where a batch axis is 0, the other sizes can be anything; those of a layer always have a product.
absl::Status CheckProduct(int64_t num_heads, absl::string_view axis, int64_t head_dim) {
  if (ElementCount({num_heads, head_dim})) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("heads.num_heads: ", num_heads, " × ", axis, " ", head_dim, ", wanted less than 2^63"));
}

Shape OutputAxes(v1::HeadLayout::Axes axes, int64_t q_length, const HeadShape& heads) {
  switch (axes) {
    case v1::HeadLayout::AXES_LENGTH_HEADS:
      return {q_length, heads.num_heads, heads.value_head_dim};
    case v1::HeadLayout::AXES_HEADS_LENGTH:
      return {heads.num_heads, q_length, heads.value_head_dim};
    default:
      return {q_length, heads.context_features()};
  }
}

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

absl::Status PlaceHeads(const v1::AttendRequest& request, Inputs& inputs) {
  if (auto status = CheckLayout(request); !status.ok()) return status;
  const v1::HeadLayout& layout = request.heads();
  if (!request.has_inputs_k() && layout.num_kv_heads() != 0 && layout.num_kv_heads() != layout.num_heads()) {
    return absl::InvalidArgumentError(absl::StrCat("inputs_k: left out, wanted a tensor, since heads.num_kv_heads ",
                                                   layout.num_kv_heads(), " differs from heads.num_heads ",
                                                   layout.num_heads()));
  }
  const AxisOrder& order = kOrders[layout.axes() - 1];
  if (auto status = PlaceInputs(layout, order, inputs); !status.ok()) return status;
  const HeadShape& heads = inputs.heads;
  if (auto status = CheckProduct(heads.num_heads, "head_dim", heads.head_dim); !status.ok()) return status;
  if (auto status = CheckProduct(heads.num_heads, "value_head_dim", heads.value_head_dim); !status.ok()) return status;
  inputs.head_axes = order.head_axes;
  inputs.output = OutputAxes(layout.axes(), inputs.q.length, heads);
  return absl::OkStatus();
}

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
