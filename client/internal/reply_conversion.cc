#include <chrono>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/internal/conversion.h"
#include "client/internal/field_error.h"

namespace attention {
namespace {

// Moves the tensors of one reply and keeps the first error.
class TensorReader {
 public:
  Tensor Read(absl::string_view field, v1::Tensor& proto) {
    Tensor tensor;
    tensor.dtype = static_cast<DataType>(proto.dtype());
    tensor.shape.assign(proto.shape().begin(), proto.shape().end());
    tensor.bytes = std::move(*proto.mutable_data());
    const std::string name = absl::StrCat("reply.", field);
    absl::Status status = CheckBytes(name, tensor);
    // DataType is one byte wide: a larger number must not pass as another type.
    if (!SameNumber(tensor.dtype, proto.dtype())) {
      status = absl::InternalError(absl::StrCat(name, ".dtype: expected a known data type, got ", proto.dtype()));
    }
    if (!status.ok()) status_.Update(absl::InternalError(status.message()));
    return tensor;
  }

  const absl::Status& status() const { return status_; }

 private:
  absl::Status status_;
};

Timing ReadTiming(const v1::Timing& proto) {
  Timing timing;
  timing.queue_time = std::chrono::nanoseconds(proto.queue_time_ns());
  timing.compute_time = std::chrono::nanoseconds(proto.compute_time_ns());
  timing.batch_requests = proto.batch_requests();
  timing.batch_tokens = proto.batch_tokens();
  const std::string& reason = v1::BatchCloseReason_Name(proto.batch_close_reason());
  timing.batch_close_reason = std::string(absl::StripPrefix(reason, "BATCH_CLOSE_REASON_"));
  return timing;
}

Intermediates ReadIntermediates(v1::Intermediates& proto, TensorReader& reader) {
  Intermediates intermediates;
  if (proto.has_query()) intermediates.query = reader.Read("intermediates.query", *proto.mutable_query());
  if (proto.has_key()) intermediates.key = reader.Read("intermediates.key", *proto.mutable_key());
  if (proto.has_value()) intermediates.value = reader.Read("intermediates.value", *proto.mutable_value());
  intermediates.scores = reader.Read("intermediates.scores", *proto.mutable_scores());
  if (proto.has_capped_scores()) {
    intermediates.capped_scores = reader.Read("intermediates.capped_scores", *proto.mutable_capped_scores());
  }
  intermediates.masked_scores = reader.Read("intermediates.masked_scores", *proto.mutable_masked_scores());
  intermediates.context = reader.Read("intermediates.context", *proto.mutable_context());
  return intermediates;
}

void ReadOptionalTensors(v1::AttendResponse& response, TensorReader& reader, AttendReply& reply) {
  if (response.has_attn_weights()) reply.attn_weights = reader.Read("attn_weights", *response.mutable_attn_weights());
  if (response.has_intermediates()) {
    reply.intermediates = ReadIntermediates(*response.mutable_intermediates(), reader);
  }
  if (response.has_mean_attn_weights()) {
    reply.mean_attn_weights = reader.Read("mean_attn_weights", *response.mutable_mean_attn_weights());
  }
  if (response.has_top_keys()) {
    v1::TopKeys& top_keys = *response.mutable_top_keys();
    reply.top_keys.emplace();
    reply.top_keys->keys = reader.Read("top_keys.keys", *top_keys.mutable_keys());
    reply.top_keys->weights = reader.Read("top_keys.weights", *top_keys.mutable_weights());
  }
  if (response.has_log_sum_exp()) reply.log_sum_exp = reader.Read("log_sum_exp", *response.mutable_log_sum_exp());
}

}  // namespace

absl::Status ToAbslStatus(int code, const std::string& message) {
  // abseil and gRPC use the same canonical numbers, 0 to 16.
  if (code < 0 || code > static_cast<int>(grpc::StatusCode::UNAUTHENTICATED)) {
    return absl::UnknownError(absl::StrCat("status code ", code, ": ", message));
  }
  return absl::Status(static_cast<absl::StatusCode>(code), message);
}

absl::Status ToAbslStatus(const grpc::Status& status) {
  return ToAbslStatus(static_cast<int>(status.error_code()), status.error_message());
}

absl::StatusOr<AttendReply> FromProto(v1::AttendResponse response) {
  TensorReader reader;
  AttendReply reply;
  reply.output = reader.Read("output", *response.mutable_output());
  reply.weight_set = std::move(*response.mutable_weight_set());
  reply.version = response.version();
  reply.request_id = std::move(*response.mutable_request_id());
  reply.timing = ReadTiming(response.timing());
  reply.empty_rows = response.empty_rows();
  ReadOptionalTensors(response, reader, reply);
  if (!reader.status().ok()) return reader.status();
  return reply;
}

AttendStream::Item FromProto(v1::AttendStreamResponse response) {
  AttendStream::Item item;
  item.request_id = std::move(*response.mutable_request_id());
  if (response.has_response()) {
    item.reply = FromProto(std::move(*response.mutable_response()));
  } else if (response.has_error() && response.error().code() != 0) {
    item.reply = ToAbslStatus(response.error().code(), response.error().message());
    item.retry_after = std::chrono::milliseconds(response.error().retry_pushback_ms());
  } else {
    item.reply = absl::InternalError("reply: expected a response or an error, got neither");
  }
  return item;
}

WeightSetInfo FromProto(const v1::WeightSetInfo& proto) {
  WeightSetInfo info;
  info.name = proto.name();
  info.version = proto.version();
  info.checkpoint = proto.checkpoint();
  info.in_features = proto.in_features();
  info.in_k_features = proto.in_k_features();
  info.in_v_features = proto.in_v_features();
  info.num_heads = proto.num_heads();
  info.num_kv_heads = proto.num_kv_heads();
  info.head_dim = proto.head_dim();
  info.value_head_dim = proto.value_head_dim();
  info.out_features = proto.out_features();
  info.normalize_qk = proto.normalize_qk();
  info.bytes = proto.bytes();
  for (const v1::ParameterInfo& parameter : proto.parameters()) {
    const std::string& dtype = v1::DataType_Name(parameter.dtype());
    info.parameters.push_back({.name = parameter.name(),
                               .dtype = absl::AsciiStrToLower(absl::StripPrefix(dtype, "DATA_TYPE_")),
                               .shape = {parameter.shape().begin(), parameter.shape().end()}});
  }
  info.layout = proto.layout();
  info.aliases.assign(proto.aliases().begin(), proto.aliases().end());
  return info;
}

LoadedCheckpoint FromProto(const v1::LoadCheckpointResponse& response) {
  LoadedCheckpoint loaded;
  loaded.checkpoint = response.checkpoint();
  loaded.version = response.version();
  loaded.sha256 = response.sha256();
  loaded.format = response.format();
  loaded.unchanged = response.unchanged();
  for (const v1::WeightSetInfo& info : response.weight_sets()) loaded.weight_sets.push_back(FromProto(info));
  loaded.unused_tensors.assign(response.unused_tensors().begin(), response.unused_tensors().end());
  loaded.dropped_versions.assign(response.dropped_versions().begin(), response.dropped_versions().end());
  loaded.removed_weight_sets.assign(response.removed_weight_sets().begin(), response.removed_weight_sets().end());
  return loaded;
}

}  // namespace attention
