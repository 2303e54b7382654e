#include "server/rpc/validation/request_validation.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/checkpoint/field_error.h"
#include "server/checkpoint/names.h"
#include "server/rpc/validation/input_validation.h"
#include "server/rpc/validation/mask_validation.h"
#include "server/rpc/validation/options_validation.h"
#include "server/rpc/validation/tensor_validation.h"

namespace attention::server {
namespace {

constexpr size_t kMaxRequestIdBytes = 128;

absl::StatusOr<ScoresTensor> CheckBias(const v1::AttendRequest& request, const ScoresShape& scores) {
  if (!request.has_bias()) return ScoresTensor();
  const absl::StatusOr<TensorView> view = CheckTensor("bias", request.bias(), AcceptedDTypes::kFloat);
  if (!view.ok()) return view.status();
  // Libraries hide keys with the lowest number of their type.
  if (auto status = CheckFloat32Range("bias", *view, BelowFloat32::kMinusInfinity); !status.ok()) return status;
  return BroadcastToScores("bias", *view, scores);
}

// What the rules have checked of a request.
struct ValidParts {
  Inputs inputs;
  AttentionOptions options;
  DType output_dtype = DType::kFloat32;
  AttentionMask mask;
  ScoresTensor bias;
};

InputTensor ToInputTensor(const Input& input) {
  return {.dtype = input.view.dtype, .data = input.view.data, .length = input.length, .features = input.features};
}

// Builds the whole call, except for the memory of its outputs. The batch axes are folded into one; their product cannot
// overflow, because CheckTensor has checked the product of all sizes.
AttentionCall BuildCall(ValidParts parts) {
  const Inputs& inputs = parts.inputs;
  AttentionCall call;
  call.shape = {.batch = *ElementCount(inputs.q.batch),
                .q_length = inputs.q.length,
                .kv_length = inputs.k.length,
                .heads = inputs.heads,
                .sharing = inputs.sharing,
                .head_axes = inputs.head_axes};
  call.options = parts.options;
  call.inputs_q = ToInputTensor(inputs.q);
  call.inputs_k = ToInputTensor(inputs.k);
  call.inputs_v = ToInputTensor(inputs.v);
  call.mask = std::move(parts.mask);
  call.bias = std::move(parts.bias);
  call.output = {
      .dtype = parts.output_dtype, .data = nullptr, .length = inputs.q.length, .features = inputs.output_features};
  return call;
}

int64_t RequestBytes(const v1::AttendRequest& request, const AttentionCall& call) {
  int64_t bytes = MaskBytes(request.mask(), call.mask) + call.bias.batch_offsets.size() * sizeof(int64_t);
  for (const v1::Tensor* tensor : {&request.inputs_q(), &request.inputs_k(), &request.inputs_v(), &request.bias()}) {
    bytes += tensor->data().size();
  }
  return bytes;
}

// A request without a weight set must have neither a version nor an alias.
absl::Status CheckNoVersion(const v1::AttendRequest& request) {
  if (request.version() != 0) return FieldError("version", "0 in a request without weight_set", request.version());
  if (!request.alias().empty()) return FieldError("alias", "none in a request without weight_set", "one");
  return absl::OkStatus();
}

// Validates the rest of a request, once the size of the reply is known to be within its limit: this allocates memory
// for each row of the batch.
absl::Status CheckMaskAndBias(const v1::AttendRequest& request, ValidParts& parts) {
  const Inputs& inputs = parts.inputs;
  const ScoresShape scores{inputs.q.batch, inputs.heads.num_heads, inputs.q.length, inputs.k.length};
  auto mask = CheckMask(request.mask(), scores, /*k_is_q=*/inputs.sharing == InputSharing::kAll);
  if (!mask.ok()) return mask.status();
  auto bias = CheckBias(request, scores);
  if (!bias.ok()) return bias.status();
  parts.mask = *std::move(mask);
  parts.bias = *std::move(bias);
  return absl::OkStatus();
}

absl::StatusOr<ValidParts> CheckInputsAndOptions(const v1::AttendRequest& request, const LayerShape* layer) {
  auto inputs = CheckInputs(request, layer);
  if (!inputs.ok()) return inputs.status();
  const auto options = CheckOptions(request.options(), inputs->heads.head_dim, inputs->k.length);
  if (!options.ok()) return options.status();
  const absl::StatusOr<DType> output_dtype = CheckOutputDType(request.options(), inputs->q.view.dtype);
  if (!output_dtype.ok()) return output_dtype.status();
  return ValidParts{*std::move(inputs), *options, *output_dtype, AttentionMask(), ScoresTensor()};
}

ReplySizes SizesOf(const ValidParts& parts, bool projected) {
  const Inputs& inputs = parts.inputs;
  return {.batch = inputs.q.batch,
          .q_length = inputs.q.length,
          .kv_length = inputs.k.length,
          .heads = inputs.heads,
          .projected = projected,
          .output = inputs.output,
          .output_dtype = parts.output_dtype};
}

}  // namespace

absl::Status CheckNames(const v1::AttendRequest& request) {
  if (request.request_id().size() > kMaxRequestIdBytes) {
    return FieldError("request_id", absl::StrCat("at most ", kMaxRequestIdBytes, " bytes"),
                      request.request_id().size());
  }
  if (request.weight_set().empty()) return CheckNoVersion(request);
  if (auto status = CheckName("weight_set", request.weight_set()); !status.ok()) return status;
  if (request.alias().empty()) return absl::OkStatus();
  if (request.version() != 0) return FieldError("version", "0 in a request with alias", request.version());
  return CheckAlias("alias", request.alias());
}

absl::StatusOr<CheckedRequest> CheckRequest(const v1::AttendRequest& request, const LayerShape* layer,
                                            int64_t max_message_bytes) {
  auto parts = CheckInputsAndOptions(request, layer);
  if (!parts.ok()) return parts.status();
  auto reply = PlanReply(SizesOf(*parts, layer != nullptr), request.options(), max_message_bytes);
  if (!reply.ok()) return reply.status();
  if (auto status = CheckMaskAndBias(request, *parts); !status.ok()) return status;

  CheckedRequest checked;
  checked.call = BuildCall(*std::move(parts));
  checked.reply = *std::move(reply);
  checked.request_bytes = RequestBytes(request, checked.call);
  if (!checked.nothing_to_compute()) checked.call.tokens = CountTokens(checked.call);
  return checked;
}

}  // namespace attention::server
