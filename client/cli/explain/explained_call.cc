#include "client/cli/explain/explained_call.h"

#include <cmath>
#include <initializer_list>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/cli/numbers.h"
#include "client/cli/text_format.h"
#include "server/checkpoint/field_error.h"
#include "server/checkpoint/tensor.h"

namespace attention::cli {
namespace {

using Shape = std::vector<int64_t>;

absl::Status ConvertReplyTensor(const char* name, const std::optional<TensorRef>& tensor, Numbers& numbers) {
  if (!tensor) return absl::InternalError(absl::StrCat("reply.", name, ": missing"));
  absl::StatusOr<Numbers> converted = ToNumbers(*tensor);
  if (!converted.ok()) return absl::InternalError(absl::StrCat("reply.", name, ": ", converted.status().message()));
  numbers = *std::move(converted);
  return absl::OkStatus();
}

absl::Status ConvertReply(const AttendReply& reply, ExplainedCall& call) {
  if (!reply.intermediates) return absl::InternalError("reply.intermediates: missing");
  const Intermediates& lines = *reply.intermediates;
  absl::Status status = ConvertReplyTensor("scores", lines.scores, call.scores);
  status.Update(ConvertReplyTensor("masked_scores", lines.masked_scores, call.masked_scores));
  status.Update(ConvertReplyTensor("attn_weights", reply.attn_weights, call.attn_weights));
  status.Update(ConvertReplyTensor("context", lines.context, call.context));
  status.Update(ConvertReplyTensor("output", reply.output, call.output));
  if (call.softcap) {
    status.Update(ConvertReplyTensor("capped_scores", lines.capped_scores, call.capped_scores.emplace()));
  }
  if (!call.weight_set) return status;
  status.Update(ConvertReplyTensor("query", lines.query, call.query));
  status.Update(ConvertReplyTensor("key", lines.key, call.key));
  status.Update(ConvertReplyTensor("value", lines.value, call.value));
  return status;
}

// Without projections query, key and value are the inputs, and the output is the context.
absl::Status TakeInputsAsProjections(const HeadLayout& heads, ExplainedCall& call) {
  const int64_t num_kv_heads = heads.num_kv_heads == 0 ? heads.num_heads : heads.num_kv_heads;
  const Numbers& inputs_k = call.inputs_k ? *call.inputs_k : call.inputs_q;
  const struct {
    const char* name;
    const Numbers& from;
    int64_t heads;
    Numbers& to;
  } lines[] = {{"inputs_q", call.inputs_q, heads.num_heads, call.query},
               {"inputs_k", inputs_k, num_kv_heads, call.key},
               {"inputs_v", call.inputs_v ? *call.inputs_v : inputs_k, num_kv_heads, call.value},
               {"reply.output", call.output, heads.num_heads, call.output_by_head.emplace()}};
  for (const auto& line : lines) {
    absl::StatusOr<Numbers> by_head = ToLengthHeads(line.from, heads.axes, line.heads);
    if (!by_head.ok()) return absl::InvalidArgumentError(absl::StrCat(line.name, ": ", by_head.status().message()));
    line.to = *std::move(by_head);
  }
  call.axes = heads.axes;
  return absl::OkStatus();
}

Shape Join(Shape shape, const Shape& more) {
  shape.insert(shape.end(), more.begin(), more.end());
  return shape;
}

absl::Status CheckShape(const char* name, const Numbers& numbers, const Shape& expected) {
  if (numbers.shape == expected) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("reply.", name, ": expected shape ", FormatShape(expected), ", got ", FormatShape(numbers.shape)));
}

absl::Status CheckShapes(const ExplainedCall& call, const Shape& batch_axes) {
  const Shape weights = Join(batch_axes, {call.num_heads, call.q_length, call.kv_length});
  const Shape context = Join(batch_axes, {call.q_length, call.num_heads, call.value_head_dim});
  const struct {
    const char* name;
    const Numbers& numbers;
    Shape expected;
  } lines[] = {
      {"query", call.query, Join(batch_axes, {call.q_length, call.num_heads, call.head_dim})},
      {"key", call.key, Join(batch_axes, {call.kv_length, call.num_kv_heads, call.head_dim})},
      {"value", call.value, Join(batch_axes, {call.kv_length, call.num_kv_heads, call.value_head_dim})},
      {"scores", call.scores, weights},
      {"capped_scores", call.capped_scores ? *call.capped_scores : call.scores, weights},
      {"masked_scores", call.masked_scores, weights},
      {"attn_weights", call.attn_weights, weights},
      {"context", call.context, context},
      {"output", call.weight_set ? call.output : *call.output_by_head,
       call.weight_set ? Join(batch_axes, {call.q_length, call.weight_set->out_features}) : context},
  };
  for (const auto& line : lines) {
    if (absl::Status status = CheckShape(line.name, line.numbers, line.expected); !status.ok()) return status;
  }
  return absl::OkStatus();
}

// Takes the sizes from the inputs, and from the weight set if there is one. Returns the batch axes.
absl::StatusOr<Shape> TakeSizes(ExplainedCall& call) {
  const Numbers& inputs_k = call.inputs_k ? *call.inputs_k : call.inputs_q;
  for (const Numbers* input : std::initializer_list<const Numbers*>{&call.inputs_q, &inputs_k}) {
    if (!call.weight_set || input->rank() >= 2) continue;
    return server::FieldError(input == &call.inputs_q ? "inputs_q" : "inputs_k", "[batch…, length, features]",
                              absl::StrCat("shape ", FormatShape(input->shape)));
  }
  const Shape& q_shape = call.weight_set ? call.inputs_q.shape : call.query.shape;
  const Shape& kv_shape = call.weight_set ? inputs_k.shape : call.key.shape;
  const int64_t own_axes = call.weight_set ? 2 : 3;
  const Shape batch_axes(q_shape.begin(), q_shape.end() - own_axes);
  call.batch = server::ElementCount(batch_axes).value_or(0);
  call.q_length = q_shape.end()[-own_axes];
  call.kv_length = kv_shape.end()[-own_axes];
  if (call.weight_set) {
    call.num_heads = call.weight_set->num_heads;
    call.num_kv_heads = call.weight_set->num_kv_heads;
    call.head_dim = call.weight_set->head_dim;
    call.value_head_dim = call.weight_set->value_head_dim;
  } else {
    call.num_heads = call.query.shape.end()[-2];
    call.num_kv_heads = call.key.shape.end()[-2];
    call.head_dim = call.query.shape.back();
    call.value_head_dim = call.value.shape.back();
  }
  return batch_axes;
}

absl::Status BroadcastBias(ExplainedCall& call) {
  if (!call.bias) return absl::OkStatus();
  absl::StatusOr<std::vector<double>> values = Broadcast(*call.bias, call.scores.shape);
  if (!values.ok()) return absl::InvalidArgumentError(absl::StrCat("bias: ", values.status().message()));
  call.bias_values = *std::move(values);
  return absl::OkStatus();
}

absl::Status ConvertInput(const char* name, const std::optional<TensorRef>& tensor, std::optional<Numbers>& numbers) {
  if (!tensor) return absl::OkStatus();
  absl::StatusOr<Numbers> converted = ToNumbers(*tensor);
  if (!converted.ok()) return absl::InvalidArgumentError(absl::StrCat(name, ": ", converted.status().message()));
  numbers = *std::move(converted);
  return absl::OkStatus();
}

absl::Status CheckLengths(const char* name, const std::vector<int64_t>& lengths, int64_t batch) {
  const auto count = static_cast<int64_t>(lengths.size());
  if (count == 0 || count == batch) return absl::OkStatus();
  return server::FieldError(absl::StrCat("mask.", name), CountOf(batch, "length"), count);
}

absl::Status CheckIds(const char* name, const std::optional<Numbers>& ids, int64_t batch, int64_t length) {
  const int64_t count = ids ? static_cast<int64_t>(ids->values.size()) : length;
  if (count == length || count == batch * length) return absl::OkStatus();
  return server::FieldError(absl::StrCat("mask.", name), CountOf(length, "id"), count);
}

// Copies the inputs, bias, mask and options of the request.
absl::Status TakeRequest(const AttendRequest& request, ExplainedCall& call) {
  std::optional<Numbers> inputs_q;
  const struct {
    const char* name;
    std::optional<TensorRef> tensor;
    std::optional<Numbers>& numbers;
  } tensors[] = {
      {"inputs_q", request.inputs_q, inputs_q},
      {"inputs_k", request.inputs_k, call.inputs_k},
      {"inputs_v", request.inputs_v, call.inputs_v},
      {"bias", request.bias, call.bias},
      {"mask.q_segment_ids", request.mask.q_segment_ids, call.mask.q_segment_ids},
      {"mask.kv_segment_ids", request.mask.kv_segment_ids, call.mask.kv_segment_ids},
  };
  for (const auto& line : tensors) {
    if (absl::Status status = ConvertInput(line.name, line.tensor, line.numbers); !status.ok()) return status;
  }
  call.inputs_q = *std::move(inputs_q);
  if (request.mask.dense) {
    call.mask.dense_shape.emplace(request.mask.dense->shape.begin(), request.mask.dense->shape.end());
  }
  call.mask.causal = request.mask.causal;
  call.mask.window = request.mask.window;
  call.mask.kv_lengths.assign(request.mask.kv_lengths.begin(), request.mask.kv_lengths.end());
  call.mask.q_lengths.assign(request.mask.q_lengths.begin(), request.mask.q_lengths.end());
  if (!call.mask.kv_segment_ids) call.mask.kv_segment_ids = call.mask.q_segment_ids;
  call.scale_is_default = !request.scale.has_value();
  if (request.scale) call.scale = *request.scale;
  call.softcap = request.softcap;
  call.empty_rows = request.empty_rows;
  call.rounds_to_bfloat16 = request.compute_dtype == DataType::kBFloat16;
  return absl::OkStatus();
}

absl::Status CheckMask(const ExplainedCall& call) {
  const ExplainedMask& mask = call.mask;
  absl::Status status = CheckLengths("kv_lengths", mask.kv_lengths, call.batch);
  status.Update(CheckLengths("q_lengths", mask.q_lengths, call.batch));
  status.Update(CheckIds("q_segment_ids", mask.q_segment_ids, call.batch, call.q_length));
  status.Update(CheckIds("kv_segment_ids", mask.kv_segment_ids, call.batch, call.kv_length));
  return status;
}

}  // namespace

absl::StatusOr<ExplainedCall> ExplainedCall::Create(const std::optional<WeightSetInfo>& weight_set,
                                                    const AttendRequest& request, const AttendReply& reply) {
  ExplainedCall call;
  call.weight_set = weight_set;
  call.version = reply.version;
  if (absl::Status status = TakeRequest(request, call); !status.ok()) return status;
  if (absl::Status status = ConvertReply(reply, call); !status.ok()) return status;
  if (!weight_set) {
    const absl::Status status = TakeInputsAsProjections(request.heads.value_or(HeadLayout{}), call);
    if (!status.ok()) return status;
  }
  const absl::StatusOr<Shape> batch_axes = TakeSizes(call);
  if (!batch_axes.ok()) return batch_axes.status();
  if (absl::Status status = CheckShapes(call, *batch_axes); !status.ok()) return status;
  if (absl::Status status = CheckMask(call); !status.ok()) return status;
  if (absl::Status status = BroadcastBias(call); !status.ok()) return status;
  if (call.scale_is_default) call.scale = 1 / std::sqrt(static_cast<double>(call.head_dim));
  return call;
}

absl::Span<const double> ExplainedCall::OutputAt(const Spot& spot) const {
  if (!weight_set) return Vector(*output_by_head, spot, spot.row, spot.head);
  const int64_t width = weight_set->out_features;
  return absl::MakeConstSpan(output.values).subspan((spot.sequence * q_length + spot.row) * width, width);
}

int64_t ExplainedCall::VisibleKeys(const Spot& spot) const {
  int64_t visible = 0;
  for (int64_t j = 0; j < kv_length; ++j) visible += VisibleAt(spot, j) ? 1 : 0;
  return visible;
}

}  // namespace attention::cli
