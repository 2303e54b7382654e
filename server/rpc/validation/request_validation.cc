#include "server/rpc/validation/request_validation.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/checkpoint/names.h"
#include "server/rpc/validation/broadcast.h"
#include "server/rpc/validation/input_validation.h"
#include "server/rpc/validation/mask_validation.h"
#include "server/rpc/validation/options_validation.h"
#include "server/rpc/validation/tensor_validation.h"

namespace attention::server {
namespace {

constexpr size_t kMaxRequestIdBytes = 128;

absl::StatusOr<ScoresTensor> CheckBias(const v1::AttendRequest& request, const ScoresShape& scores) {
  if (!request.has_bias()) return ScoresTensor();
  const absl::StatusOr<TensorView> view = CheckTensor("bias", request.bias(), WantedDType::kFloat);
  if (!view.ok()) return view.status();
  return BroadcastToScores("bias", *view, scores);
}

// Fills in `call` what the inputs say. The batch axes become one; their product is at most that of all sizes, which
// CheckTensor found to fit.
void FoldInputs(const v1::AttendRequest& request, const Inputs& inputs, CheckedRequest* checked) {
  AttentionCall& call = checked->call;
  call.batch = *ElementCount(inputs.q.batch);
  call.q_length = inputs.q.length;
  call.kv_length = inputs.k.length;
  call.heads = inputs.heads;
  call.head_axes = inputs.head_axes;
  call.k_is_q = !request.has_inputs_k();
  call.v_is_k = !request.has_inputs_v();
  call.inputs_q = inputs.q.view;
  call.inputs_k = inputs.k.view;
  call.inputs_v = inputs.v.view;
}

void FoldShapes(const Inputs& inputs, CheckedRequest* checked) {
  std::vector<int64_t>& shapes = checked->folded_shapes;
  for (const Input* input : {&inputs.q, &inputs.k, &inputs.v}) {
    shapes.insert(shapes.end(), {checked->call.batch, input->length, input->view.shape.back()});
  }
  size_t first = 0;
  for (TensorView* view : {&checked->call.inputs_q, &checked->call.inputs_k, &checked->call.inputs_v}) {
    view->shape = absl::MakeConstSpan(shapes).subspan(first, 3);
    first += 3;
  }
}

int64_t RequestBytes(const v1::AttendRequest& request, const AttentionCall& call) {
  const v1::Mask& mask = request.mask();
  int64_t bytes = OwnedBytes(call.mask) + call.bias.batch_offsets.size() * sizeof(int64_t) +
                  (mask.kv_lengths_size() + mask.q_lengths_size()) * sizeof(int64_t);
  for (const v1::Tensor* tensor : {&request.inputs_q(), &request.inputs_k(), &request.inputs_v(), &request.bias(),
                                   &mask.dense(), &mask.q_segment_ids(), &mask.kv_segment_ids()}) {
    bytes += tensor->data().size();
  }
  return bytes;
}

// What a request without a weight set must not have.
absl::Status CheckNoVersion(const v1::AttendRequest& request) {
  if (request.version() != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("version: ", request.version(), " without a weight_set, wanted 0 or a weight_set"));
  }
  if (request.alias().empty()) return absl::OkStatus();
  return absl::InvalidArgumentError("alias: given without a weight_set, wanted none or a weight_set");
}

// The other tensors, once it is clear that the reply is not too large.
absl::Status CheckMaskAndBias(const v1::AttendRequest& request, const Inputs& inputs, AttentionCall* call) {
  const ScoresShape scores{inputs.q.batch, inputs.heads.num_heads, inputs.q.length, inputs.k.length};
  auto mask = CheckMask(request.mask(), scores, call->k_is_q);
  if (!mask.ok()) return mask.status();
  auto bias = CheckBias(request, scores);
  if (!bias.ok()) return bias.status();
  call->mask = *std::move(mask);
  call->bias = *std::move(bias);
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckNames(const v1::AttendRequest& request) {
  if (request.request_id().size() > kMaxRequestIdBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("request_id: ", request.request_id().size(), " bytes, wanted at most ", kMaxRequestIdBytes));
  }
  if (request.weight_set().empty()) return CheckNoVersion(request);
  if (auto status = CheckName("weight_set", request.weight_set()); !status.ok()) return status;
  if (request.alias().empty()) return absl::OkStatus();
  if (request.version() != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("version: ", request.version(), " together with an alias, wanted one of them"));
  }
  return CheckAlias("alias", request.alias());
}

absl::StatusOr<CheckedRequest> CheckRequest(const v1::AttendRequest& request, const LayerShape* layer,
                                            int64_t max_message_bytes) {
  const absl::StatusOr<Inputs> inputs = CheckInputs(request, layer);
  if (!inputs.ok()) return inputs.status();
  const auto options = CheckOptions(request.options(), inputs->heads.head_dim, inputs->k.length);
  if (!options.ok()) return options.status();
  const absl::StatusOr<DType> output_dtype = CheckOutputDType(request.options(), inputs->q.view.dtype);
  if (!output_dtype.ok()) return output_dtype.status();
  const ReplySizes sizes{.batch = inputs->q.batch,
                         .q_length = inputs->q.length,
                         .kv_length = inputs->k.length,
                         .heads = inputs->heads,
                         .projected = layer != nullptr,
                         .output = inputs->output,
                         .output_dtype = *output_dtype};
  auto reply = PlanReply(sizes, request.options(), max_message_bytes);
  if (!reply.ok()) return reply.status();

  CheckedRequest checked;
  AttentionCall& call = checked.call;
  FoldInputs(request, *inputs, &checked);
  if (layer != nullptr) FoldShapes(*inputs, &checked);
  if (auto status = CheckMaskAndBias(request, *inputs, &call); !status.ok()) return status;
  call.options = *options;
  call.output_dtype = *output_dtype;
  checked.reply = *std::move(reply);
  checked.request_bytes = RequestBytes(request, call);
  if (!checked.nothing_to_compute()) call.tokens = CountTokens(call);
  return checked;
}

}  // namespace attention::server
