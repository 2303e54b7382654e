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

// The batch axes become one. Their product does not overflow, because CheckTensor has checked that of all axes.
AttentionShape FoldedShape(const v1::AttendRequest& request, const Inputs& inputs) {
  InputSharing sharing = InputSharing::kNone;
  if (!request.has_inputs_v()) sharing = InputSharing::kValuesAreKeys;
  if (!request.has_inputs_k()) sharing = InputSharing::kAll;
  return {.batch = *ElementCount(inputs.q.batch),
          .q_length = inputs.q.length,
          .kv_length = inputs.k.length,
          .heads = inputs.heads,
          .sharing = sharing,
          .head_axes = inputs.head_axes};
}

InputTensor FoldedTensor(const Input& input, int64_t features) {
  return {.dtype = input.view.dtype, .data = input.view.data, .length = input.length, .features = features};
}

// The call without mask and bias. Its outputs are allocated later.
AttentionCall MakeCall(const v1::AttendRequest& request, const Inputs& inputs, const LayerShape* layer,
                       const AttentionOptions& options, DType output_dtype) {
  AttentionCall call;
  call.shape = FoldedShape(request, inputs);
  call.options = options;
  const HeadShape& heads = inputs.heads;
  call.inputs_q = FoldedTensor(inputs.q, layer != nullptr ? layer->in_features : heads.query_features());
  call.inputs_k = FoldedTensor(inputs.k, layer != nullptr ? layer->in_k_features : heads.key_features());
  call.inputs_v = FoldedTensor(inputs.v, layer != nullptr ? layer->in_v_features : heads.value_features());
  call.output = {.dtype = output_dtype,
                 .data = nullptr,
                 .length = inputs.q.length,
                 .features = layer != nullptr ? layer->out_features : heads.context_features()};
  return call;
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
  auto mask = CheckMask(request.mask(), scores, call->shape.k_is_q());
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
  call = MakeCall(request, *inputs, layer, *options, *output_dtype);
  if (auto status = CheckMaskAndBias(request, *inputs, &call); !status.ok()) return status;
  checked.reply = *std::move(reply);
  checked.request_bytes = RequestBytes(request, call);
  if (!checked.nothing_to_compute()) call.tokens = CountTokens(call);
  return checked;
}

}  // namespace attention::server
