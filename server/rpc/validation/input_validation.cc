#include "server/rpc/validation/input_validation.h"

#include <iterator>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/checkpoint/field_error.h"
#include "server/rpc/proto_conversion.h"
#include "server/rpc/validation/tensor_validation.h"

namespace attention::server {
namespace {

// The positions of length and heads in a head layout, counted from the last axis, which is 1.
struct AxisOrder {
  absl::string_view text;
  size_t axes;    // without the batch axes
  size_t length;  // axis
  size_t heads;   // axis; 0: the last axis holds the features of all heads
};

// Indexed by v1::HeadLayout::Axes - 1.
constexpr AxisOrder kAxisOrders[] = {
    {"[batch…, length, heads × head_dim]", 2, 2, 0},
    {"[batch…, length, heads, head_dim]", 3, 3, 2},
    {"[batch…, heads, length, head_dim]", 3, 2, 3},
};
static_assert(std::size(kAxisOrders) == v1::HeadLayout::Axes_ARRAYSIZE - 1);

// The number of heads of an input, and the field that sets it.
struct HeadCount {
  int64_t heads;
  absl::string_view field;
};

// "INPUT: expected EXPECTED, got GOT shape […]", and the field that holds the tensor if that is another one.
absl::Status ShapeError(const Input& input, const absl::AlphaNum& expected, const absl::AlphaNum& got) {
  const bool absent = input.source != input.field;
  return FieldError(input.field, expected,
                    absl::StrCat(got, "shape ", ShapeString(input.view.shape),
                                 absent ? absl::StrCat(" of ", input.source, " (", input.field, " is absent)") : ""));
}

absl::Status CheckHeadLayout(const v1::AttendRequest& request) {
  if (!request.has_heads()) return FieldError("heads", "a head layout in a request without weight_set", "none");
  const v1::HeadLayout& heads = request.heads();
  if (heads.num_heads() < 1) return FieldError("heads.num_heads", "at least 1", heads.num_heads());
  if (heads.num_kv_heads() < 0 || (heads.num_kv_heads() > 0 && heads.num_heads() % heads.num_kv_heads() != 0)) {
    return FieldError("heads.num_kv_heads", absl::StrCat("a divisor of heads.num_heads ", heads.num_heads()),
                      heads.num_kv_heads());
  }
  if (!HeadAxesFromProto(heads.axes())) {
    const auto number = static_cast<int>(heads.axes());
    return FieldError("heads.axes", "LENGTH_FEATURES, LENGTH_HEADS or HEADS_LENGTH",
                      number == 0 ? "unspecified" : absl::StrCat(number));
  }
  if (!request.has_inputs_k() && heads.num_kv_heads() != 0 && heads.num_kv_heads() != heads.num_heads()) {
    return FieldError("inputs_k",
                      absl::StrCat("a tensor because heads.num_kv_heads ", heads.num_kv_heads(),
                                   " differs from heads.num_heads ", heads.num_heads()),
                      "none");
  }
  return absl::OkStatus();
}

// Sets the batch axes and the length of an input, and returns the size of each head.
absl::StatusOr<int64_t> SplitHeads(const AxisOrder& order, const HeadCount& count, Input& input) {
  const absl::Span<const int64_t> shape = input.view.shape;
  if (shape.size() < order.axes) return ShapeError(input, absl::StrCat("shape ", order.text), "");
  const auto axis = [&](size_t from_last) { return shape[shape.size() - from_last]; };
  input.batch = shape.first(shape.size() - order.axes);
  input.length = axis(order.length);
  if (order.heads == 0) {
    if (shape.back() > 0 && shape.back() % count.heads == 0) return shape.back() / count.heads;
    return ShapeError(input, absl::StrCat("a positive multiple of ", count.field, " ", count.heads, " features"),
                      absl::StrCat(shape.back(), " in "));
  }
  if (axis(order.heads) != count.heads) {
    return ShapeError(input, absl::StrCat(count.field, " ", count.heads, " heads in axes ", order.text),
                      absl::StrCat(axis(order.heads), " in "));
  }
  if (shape.back() == 0) return ShapeError(input, "head_dim of at least 1", "0 in ");
  return shape.back();
}

// If a batch axis is 0, the other sizes can be anything, so their products may overflow. Those of a layer never do.
absl::Status CheckProduct(int64_t num_heads, absl::string_view axis, int64_t head_dim) {
  if (ElementCount({num_heads, head_dim})) return absl::OkStatus();
  return FieldError("heads.num_heads", absl::StrCat("num_heads × ", axis, " below 2^63"),
                    absl::StrCat(num_heads, " × ", head_dim));
}

absl::Status SplitHeadsOfInputs(const v1::HeadLayout& layout, Inputs& inputs) {
  const AxisOrder& order = kAxisOrders[layout.axes() - 1];
  HeadShape& heads = inputs.heads;
  heads.num_heads = layout.num_heads();
  heads.num_kv_heads = layout.num_kv_heads() == 0 ? layout.num_heads() : layout.num_kv_heads();
  const HeadCount q_heads{heads.num_heads, "heads.num_heads"};
  const HeadCount kv_heads{heads.num_kv_heads, layout.num_kv_heads() == 0 ? q_heads.field : "heads.num_kv_heads"};

  const absl::StatusOr<int64_t> head_dim = SplitHeads(order, q_heads, inputs.q);
  if (!head_dim.ok()) return head_dim.status();
  const absl::StatusOr<int64_t> k_head_dim = SplitHeads(order, kv_heads, inputs.k);
  if (!k_head_dim.ok()) return k_head_dim.status();
  const absl::StatusOr<int64_t> value_head_dim = SplitHeads(order, kv_heads, inputs.v);
  if (!value_head_dim.ok()) return value_head_dim.status();
  if (*k_head_dim != *head_dim) {
    return ShapeError(inputs.k, absl::StrCat("head_dim ", *head_dim, " as in inputs_q"),
                      absl::StrCat(*k_head_dim, " in ", heads.num_kv_heads, " heads of "));
  }
  heads.head_dim = *head_dim;
  heads.value_head_dim = *value_head_dim;
  if (auto status = CheckProduct(heads.num_heads, "head_dim", heads.head_dim); !status.ok()) return status;
  return CheckProduct(heads.num_heads, "value_head_dim", heads.value_head_dim);
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

absl::Status ResolveWithoutLayer(const v1::AttendRequest& request, Inputs& inputs) {
  if (auto status = CheckHeadLayout(request); !status.ok()) return status;
  if (auto status = SplitHeadsOfInputs(request.heads(), inputs); !status.ok()) return status;
  const HeadShape& heads = inputs.heads;
  inputs.q.features = heads.query_features();
  inputs.k.features = heads.key_features();
  inputs.v.features = heads.value_features();
  inputs.head_axes = *HeadAxesFromProto(request.heads().axes());
  inputs.output = OutputAxes(request.heads().axes(), inputs.q.length, heads);
  inputs.output_features = heads.context_features();
  return absl::OkStatus();
}

// Checks for [batch…, length, features], with the features of a kernel, and sets these.
absl::Status CheckFeatures(int64_t features, absl::string_view kernel, Input& input) {
  const absl::Span<const int64_t> shape = input.view.shape;
  if (shape.size() < 2) return ShapeError(input, "shape [batch…, length, features]", "");
  if (shape.back() != features) {
    return ShapeError(input, absl::StrCat(features, " features (axis 0 of ", kernel, ")"),
                      absl::StrCat(shape.back(), " in "));
  }
  input.batch = shape.first(shape.size() - 2);
  input.length = shape[shape.size() - 2];
  input.features = features;
  return absl::OkStatus();
}

absl::Status ResolveWithLayer(const v1::AttendRequest& request, const LayerShape& layer, Inputs& inputs) {
  if (request.has_heads()) return FieldError("heads", "none in a request with weight_set", "a head layout");
  if (auto status = CheckFeatures(layer.in_features, "query_kernel", inputs.q); !status.ok()) return status;
  if (auto status = CheckFeatures(layer.in_k_features, "key_kernel", inputs.k); !status.ok()) return status;
  if (auto status = CheckFeatures(layer.in_v_features, "value_kernel", inputs.v); !status.ok()) return status;
  inputs.heads = layer.heads;
  inputs.output = {inputs.q.length, layer.out_features};
  inputs.output_features = layer.out_features;
  return absl::OkStatus();
}

absl::Status ReadInput(absl::string_view field, const v1::Tensor& tensor, Input& input) {
  const absl::StatusOr<TensorView> view = CheckTensor(field, tensor, AcceptedDTypes::kFloat);
  if (!view.ok()) return view.status();
  if (auto status = CheckFloat32Range(field, *view, BelowFloat32::kInvalid); !status.ok()) return status;
  input = {.field = field, .source = field, .view = *view};
  return absl::OkStatus();
}

absl::Status ReadInputs(const v1::AttendRequest& request, Inputs& inputs) {
  if (!request.has_inputs_q()) return FieldError("inputs_q", "a tensor", "none");
  if (request.has_inputs_v() && !request.has_inputs_k()) {
    return FieldError("inputs_v", "inputs_k beside inputs_v", "inputs_v alone");
  }
  if (auto status = ReadInput("inputs_q", request.inputs_q(), inputs.q); !status.ok()) return status;
  inputs.k = {.field = "inputs_k", .source = "inputs_q", .view = inputs.q.view};
  inputs.v = {.field = "inputs_v", .source = "inputs_q", .view = inputs.q.view};
  inputs.sharing = InputSharing::kAll;
  if (!request.has_inputs_k()) return absl::OkStatus();
  if (auto status = ReadInput("inputs_k", request.inputs_k(), inputs.k); !status.ok()) return status;
  inputs.v = {.field = "inputs_v", .source = "inputs_k", .view = inputs.k.view};
  inputs.sharing = InputSharing::kValuesAreKeys;
  if (!request.has_inputs_v()) return absl::OkStatus();
  inputs.sharing = InputSharing::kNone;
  return ReadInput("inputs_v", request.inputs_v(), inputs.v);
}

absl::Status CheckBatch(const Input& input, const Input& q) {
  if (input.batch == q.batch) return absl::OkStatus();
  return FieldError(input.field, absl::StrCat("batch ", ShapeString(q.batch), " as in inputs_q"),
                    ShapeString(input.batch));
}

}  // namespace

absl::StatusOr<Inputs> CheckInputs(const v1::AttendRequest& request, const LayerShape* layer) {
  Inputs inputs;
  if (auto status = ReadInputs(request, inputs); !status.ok()) return status;
  const absl::Status resolved =
      layer == nullptr ? ResolveWithoutLayer(request, inputs) : ResolveWithLayer(request, *layer, inputs);
  if (!resolved.ok()) return resolved;
  if (auto status = CheckBatch(inputs.k, inputs.q); !status.ok()) return status;
  if (auto status = CheckBatch(inputs.v, inputs.q); !status.ok()) return status;
  if (inputs.k.length != inputs.v.length) {
    return FieldError("inputs_k", absl::StrCat("kv_length ", inputs.v.length, " as in inputs_v"), inputs.k.length);
  }
  return inputs;
}

}  // namespace attention::server
