#include "server/rpc/validation.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/rpc/mask_validation.h"
#include "server/rpc/tensor_proto.h"
#include "server/rpc/tensor_validation.h"
#include "server/weights/names.h"

namespace attention::server {
namespace {

constexpr size_t kMaxRequestIdBytes = 128;

// [batch…, length, features], one of the three inputs.
struct Input {
  absl::string_view field;
  TensorView view;

  absl::Span<const int64_t> batch() const { return view.shape.subspan(0, view.shape.size() - 2); }
  int64_t length() const { return view.shape[view.shape.size() - 2]; }
  int64_t features() const { return view.shape.back(); }
};

struct Inputs {
  Input q, k, v;
};

absl::StatusOr<Input> CheckInput(absl::string_view field, const v1::Tensor& tensor) {
  const absl::StatusOr<TensorView> view = CheckTensor(field, tensor, WantedDType::kFloat);
  if (!view.ok()) return view.status();
  if (view->shape.size() < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": shape ", ShapeString(view->shape), ", wanted [batch…, length, features]"));
  }
  return Input{field, *view};
}

// What was left out takes the tensor before it, but keeps its own name for the messages.
absl::StatusOr<Inputs> ReadInputs(const v1::AttendRequest& request) {
  if (!request.has_inputs_q()) return absl::InvalidArgumentError("inputs_q: missing, wanted a tensor");
  if (request.has_inputs_v() && !request.has_inputs_k()) {
    return absl::InvalidArgumentError("inputs_v: given without inputs_k, wanted both or inputs_k alone");
  }
  const absl::StatusOr<Input> q = CheckInput("inputs_q", request.inputs_q());
  if (!q.ok()) return q.status();
  Inputs inputs{.q = *q, .k = {"inputs_k (left out, so inputs_q)", q->view}, .v = {}};
  inputs.v = {"inputs_v (left out, so inputs_q)", q->view};
  if (request.has_inputs_k()) {
    const absl::StatusOr<Input> k = CheckInput("inputs_k", request.inputs_k());
    if (!k.ok()) return k.status();
    inputs.k = *k;
    inputs.v = {"inputs_v (left out, so inputs_k)", k->view};
  }
  if (request.has_inputs_v()) {
    const absl::StatusOr<Input> v = CheckInput("inputs_v", request.inputs_v());
    if (!v.ok()) return v.status();
    inputs.v = *v;
  }
  return inputs;
}

absl::Status CheckFeatures(const Input& input, int64_t wanted, absl::string_view kernel) {
  if (input.features() == wanted) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(input.field, ": shape ", ShapeString(input.view.shape), " has ",
                                                 input.features(), " features, wanted ", wanted, ", axis 0 of ",
                                                 kernel));
}

absl::Status CheckBatch(const Input& input, const Input& q) {
  if (input.batch() == q.batch()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(input.field, ": batch ", ShapeString(input.batch()),
                                                 " differs from inputs_q batch ", ShapeString(q.batch())));
}

absl::Status CheckAgreement(const Inputs& inputs, const LayerShape& layer) {
  if (auto status = CheckFeatures(inputs.q, layer.in_features, "query_kernel"); !status.ok()) return status;
  if (auto status = CheckFeatures(inputs.k, layer.in_k_features, "key_kernel"); !status.ok()) return status;
  if (auto status = CheckFeatures(inputs.v, layer.in_v_features, "value_kernel"); !status.ok()) {
    return status;
  }
  if (auto status = CheckBatch(inputs.k, inputs.q); !status.ok()) return status;
  if (auto status = CheckBatch(inputs.v, inputs.q); !status.ok()) return status;
  if (inputs.k.length() != inputs.v.length()) {
    return absl::InvalidArgumentError(absl::StrCat("inputs_k: kv_length ", inputs.k.length(),
                                                   " differs from inputs_v kv_length ", inputs.v.length()));
  }
  return absl::OkStatus();
}

// Fills in `call` what the inputs say. The batch axes become one; their product is at most that of all sizes, which
// CheckTensor found to fit.
void FoldInputs(const v1::AttendRequest& request, const Inputs& inputs, CheckedRequest* checked) {
  AttentionCall& call = checked->call;
  call.batch = *ElementCount(inputs.q.batch());
  call.q_length = inputs.q.length();
  call.kv_length = inputs.k.length();
  call.k_is_q = !request.has_inputs_k();
  call.v_is_k = !request.has_inputs_v();

  std::vector<int64_t>& shapes = checked->folded_shapes;
  for (const Input* input : {&inputs.q, &inputs.k, &inputs.v}) {
    shapes.insert(shapes.end(), {call.batch, input->length(), input->features()});
  }
  const auto folded = [&](const Input& input, size_t index) {
    return TensorView{input.view.dtype, absl::MakeConstSpan(shapes).subspan(3 * index, 3), input.view.data};
  };
  call.inputs_q = folded(inputs.q, 0);
  call.inputs_k = folded(inputs.k, 1);
  call.inputs_v = folded(inputs.v, 2);
}

int64_t RequestBytes(const v1::AttendRequest& request) {
  return request.inputs_q().data().size() + request.inputs_k().data().size() + request.inputs_v().data().size() +
         request.mask().dense().data().size();
}

absl::StatusOr<DType> OutputDType(const v1::AttendRequest& request) {
  const v1::DataType dtype = request.options().output_dtype();
  if (dtype == v1::DATA_TYPE_UNSPECIFIED) return *DTypeFromProto(request.inputs_q().dtype());
  if (auto status = CheckDType("options.output_dtype", dtype, WantedDType::kFloat); !status.ok()) return status;
  return *DTypeFromProto(dtype);
}

absl::StatusOr<DenseMask> ReadMask(const v1::AttendRequest& request, const Inputs& inputs, const LayerShape& layer) {
  if (!request.mask().has_dense()) return DenseMask();
  return CheckMask(request.mask().dense(), {inputs.q.batch(), layer.num_heads, inputs.q.length(), inputs.k.length()});
}

ReplySizes SizesOf(const v1::AttendRequest& request, const Inputs& inputs, const LayerShape& layer,
                   DType output_dtype) {
  return {.batch = inputs.q.batch(),
          .q_length = inputs.q.length(),
          .kv_length = inputs.k.length(),
          .layer = layer,
          .output_dtype = output_dtype,
          .attn_weights = request.options().return_attn_weights(),
          .intermediates = request.options().return_intermediates()};
}

}  // namespace

absl::Status CheckNames(const v1::AttendRequest& request) {
  if (request.request_id().size() > kMaxRequestIdBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("request_id: ", request.request_id().size(), " bytes, wanted at most ", kMaxRequestIdBytes));
  }
  return CheckName("weight_set", request.weight_set());
}

absl::StatusOr<CheckedRequest> CheckRequest(const v1::AttendRequest& request, const LayerShape& layer,
                                            int64_t max_message_bytes) {
  const absl::StatusOr<Inputs> inputs = ReadInputs(request);
  if (!inputs.ok()) return inputs.status();
  if (auto status = CheckAgreement(*inputs, layer); !status.ok()) return status;
  const absl::StatusOr<DType> output_dtype = OutputDType(request);
  if (!output_dtype.ok()) return output_dtype.status();
  auto reply = PlanReply(SizesOf(request, *inputs, layer, *output_dtype), max_message_bytes);
  if (!reply.ok()) return reply.status();
  auto mask = ReadMask(request, *inputs, layer);
  if (!mask.ok()) return mask.status();

  CheckedRequest checked;
  FoldInputs(request, *inputs, &checked);
  checked.call.output_dtype = *output_dtype;
  checked.call.mask = *std::move(mask);
  checked.reply = *std::move(reply);
  checked.request_bytes = RequestBytes(request) + checked.call.mask.batch_offsets.size() * sizeof(int64_t);
  return checked;
}

}  // namespace attention::server
