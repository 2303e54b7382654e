#include "client/cli/explained_call.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/cli/mask_broadcast.h"
#include "client/cli/number_format.h"
#include "server/engine/tensor.h"

namespace attention::cli {
namespace {

using Shape = std::vector<int64_t>;

absl::Status Convert(const Tensor& tensor, const char* name, Numbers& numbers) {
  absl::StatusOr<Numbers> converted = ToNumbers(tensor);
  if (!converted.ok()) return absl::InternalError(absl::StrCat("reply: ", name, ": ", converted.status().message()));
  numbers = *std::move(converted);
  return absl::OkStatus();
}

absl::Status ConvertReply(const AttendReply& reply, ExplainedCall& call) {
  if (!reply.intermediates || !reply.attn_weights) return absl::InternalError("reply: no intermediate values in it");
  const struct {
    const Tensor& tensor;
    const char* name;
    Numbers& numbers;
  } lines[] = {
      {reply.intermediates->query, "query", call.query},
      {reply.intermediates->key, "key", call.key},
      {reply.intermediates->value, "value", call.value},
      {reply.intermediates->scores, "scores", call.scores},
      {*reply.attn_weights, "attn_weights", call.attn_weights},
      {reply.intermediates->context, "context", call.context},
      {reply.output, "output", call.output},
  };
  for (const auto& line : lines) {
    if (absl::Status status = Convert(line.tensor, line.name, line.numbers); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status ConvertInput(const std::optional<TensorRef>& tensor, std::optional<Numbers>& numbers) {
  if (!tensor) return absl::OkStatus();
  absl::StatusOr<Numbers> converted = ToNumbers(*tensor);
  if (!converted.ok()) return converted.status();
  numbers = *std::move(converted);
  return absl::OkStatus();
}

absl::Status ConvertRequest(const AttendRequest& request, ExplainedCall& call) {
  absl::StatusOr<Numbers> inputs_q = ToNumbers(request.inputs_q);
  if (!inputs_q.ok()) return inputs_q.status();
  call.inputs_q = *std::move(inputs_q);
  for (const auto& [tensor, numbers] :
       {std::pair{&request.inputs_k, &call.inputs_k}, std::pair{&request.inputs_v, &call.inputs_v},
        std::pair{&request.mask, &call.mask}}) {
    if (absl::Status status = ConvertInput(*tensor, *numbers); !status.ok()) return status;
  }
  return absl::OkStatus();
}

Shape Join(Shape shape, const Shape& more) {
  shape.insert(shape.end(), more.begin(), more.end());
  return shape;
}

absl::Status CheckShapes(const ExplainedCall& call, const Shape& batch_axes) {
  const Shape q_heads = Join(batch_axes, {call.q_length, call.num_heads, call.head_dim});
  const Shape kv_heads = Join(batch_axes, {call.kv_length, call.num_heads, call.head_dim});
  const Shape weights = Join(batch_axes, {call.num_heads, call.q_length, call.kv_length});
  const struct {
    const char* name;
    const Numbers& numbers;
    Shape wanted;
  } lines[] = {{"query", call.query, q_heads},
               {"key", call.key, kv_heads},
               {"value", call.value, kv_heads},
               {"scores", call.scores, weights},
               {"attn_weights", call.attn_weights, weights},
               {"context", call.context, q_heads},
               {"output", call.output, Join(batch_axes, {call.q_length, call.weight_set.out_features})}};
  for (const auto& line : lines) {
    if (line.numbers.shape != line.wanted) {
      return absl::InternalError(absl::StrCat("reply: ", line.name, ": wanted shape ", FormatShape(line.wanted),
                                              ", found ", FormatShape(line.numbers.shape)));
    }
  }
  return absl::OkStatus();
}

// The sizes come from the inputs and the weight set; the reply has to agree with them.
absl::StatusOr<Shape> TakeSizes(ExplainedCall& call) {
  const Numbers& kv = call.inputs_k ? *call.inputs_k : call.inputs_q;
  if (call.inputs_q.rank() < 2 || kv.rank() < 2) {
    return absl::InvalidArgumentError("inputs_q, inputs_k: wanted at least the axes [length, features]");
  }
  Shape batch_axes(call.inputs_q.shape.begin(), call.inputs_q.shape.end() - 2);
  call.batch = server::ElementCount(batch_axes).value_or(0);
  call.q_length = call.inputs_q.shape[call.inputs_q.rank() - 2];
  call.kv_length = kv.shape[kv.rank() - 2];
  call.num_heads = call.weight_set.num_heads;
  call.head_dim = call.weight_set.head_dim;
  return batch_axes;
}

}  // namespace

absl::StatusOr<ExplainedCall> ExplainedCall::Create(const WeightSetInfo& weight_set, const AttendRequest& request,
                                                    const AttendReply& reply) {
  ExplainedCall call;
  call.weight_set = weight_set;
  call.timing = reply.timing;
  call.version = reply.version;
  if (absl::Status status = ConvertRequest(request, call); !status.ok()) return status;
  if (absl::Status status = ConvertReply(reply, call); !status.ok()) return status;
  const absl::StatusOr<Shape> batch_axes = TakeSizes(call);
  if (!batch_axes.ok()) return batch_axes.status();
  if (absl::Status status = CheckShapes(call, *batch_axes); !status.ok()) return status;
  if (call.mask) {
    absl::StatusOr<std::vector<uint8_t>> visible = BroadcastMask(*call.mask, call.scores.shape);
    if (!visible.ok()) return visible.status();
    call.visible = *std::move(visible);
  }
  return call;
}

absl::Span<const double> ExplainedCall::OutputAt(const Spot& spot) const {
  const int64_t width = weight_set.out_features;
  return absl::MakeConstSpan(output.values).subspan((spot.sequence * q_length + spot.row) * width, width);
}

bool ExplainedCall::SeesNoKey(const Spot& spot) const {
  for (int64_t j = 0; j < kv_length; ++j) {
    if (VisibleAt(spot, j)) return false;
  }
  return true;
}

}  // namespace attention::cli
