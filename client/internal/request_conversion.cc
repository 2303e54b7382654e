#include <google/protobuf/io/coded_stream.h>

#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/internal/conversion.h"
#include "client/internal/field_error.h"

namespace attention {
namespace {

// A tensor that is set, its field in a message, and the name of the field in error texts.
template <typename Message>
struct TensorField {
  absl::string_view name;
  const TensorRef* tensor;
  v1::Tensor* (Message::*mutable_field)();
};

template <typename Message>
void AddIfSet(absl::string_view name, const std::optional<TensorRef>& tensor, v1::Tensor* (Message::*mutable_field)(),
              std::vector<TensorField<Message>>& fields) {
  if (tensor) fields.push_back({name, &*tensor, mutable_field});
}

std::vector<TensorField<v1::AttendRequest>> InputTensors(const AttendRequest& request) {
  std::vector<TensorField<v1::AttendRequest>> fields = {
      {"inputs_q", &request.inputs_q, &v1::AttendRequest::mutable_inputs_q}};
  AddIfSet("inputs_k", request.inputs_k, &v1::AttendRequest::mutable_inputs_k, fields);
  AddIfSet("inputs_v", request.inputs_v, &v1::AttendRequest::mutable_inputs_v, fields);
  AddIfSet("bias", request.bias, &v1::AttendRequest::mutable_bias, fields);
  return fields;
}

std::vector<TensorField<v1::Mask>> MaskTensors(const Mask& mask) {
  std::vector<TensorField<v1::Mask>> fields;
  AddIfSet("mask.dense", mask.dense, &v1::Mask::mutable_dense, fields);
  AddIfSet("mask.q_segment_ids", mask.q_segment_ids, &v1::Mask::mutable_q_segment_ids, fields);
  AddIfSet("mask.kv_segment_ids", mask.kv_segment_ids, &v1::Mask::mutable_kv_segment_ids, fields);
  return fields;
}

int64_t VarintSize(uint64_t value) { return google::protobuf::io::CodedOutputStream::VarintSize64(value); }

// Size of a length-delimited field. All field numbers here are below 16, so a tag is one byte.
int64_t FieldSize(int64_t length) { return 1 + VarintSize(length) + length; }

// proto3 omits a field of length 0.
int64_t OptionalFieldSize(int64_t length) { return length == 0 ? 0 : FieldSize(length); }

// REQUIRES: CheckTensor is OK.
int64_t TensorSize(const TensorRef& tensor) {
  int64_t shape_bytes = 0;
  for (const int64_t axis : tensor.shape) shape_bytes += VarintSize(axis);
  const int64_t dtype_bytes = 2;
  return dtype_bytes + OptionalFieldSize(shape_bytes) + OptionalFieldSize(static_cast<int64_t>(tensor.bytes.size()));
}

absl::Status CheckLimit(absl::string_view name, int64_t bytes, int64_t max_message_bytes) {
  if (bytes <= max_message_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat(name, ": expected at most ", max_message_bytes, " bytes (max_message_bytes), got ", bytes));
}

// Compares each tensor with the limit, so that the sum over the tensors cannot overflow.
absl::Status CheckTensor(absl::string_view name, const TensorRef& tensor, int64_t max_message_bytes) {
  if (absl::Status status = CheckBytes(name, tensor); !status.ok()) return status;
  return CheckLimit(name, static_cast<int64_t>(tensor.bytes.size()), max_message_bytes);
}

// A length takes at least one byte. More lengths than the limit would not fit into a message's array.
absl::Status CheckLengths(absl::string_view name, absl::Span<const int64_t> lengths, int64_t max_message_bytes) {
  return CheckLimit(name, static_cast<int64_t>(lengths.size()), max_message_bytes);
}

void SetTensor(const TensorRef& tensor, v1::Tensor& proto) {
  proto.set_dtype(static_cast<v1::DataType>(tensor.dtype));
  proto.mutable_shape()->Add(tensor.shape.begin(), tensor.shape.end());
  proto.set_data(tensor.bytes.data(), tensor.bytes.size());
}

void SetDiagonal(const Diagonal& diagonal, v1::Diagonal& proto) {
  if (const Corner* corner = std::get_if<Corner>(&diagonal)) {
    proto.set_corner(static_cast<v1::Diagonal::Corner>(*corner));
  } else {
    proto.set_offset(std::get<int64_t>(diagonal));
  }
}

void SetWindow(const SlidingWindow& window, v1::SlidingWindow& proto) {
  SetDiagonal(window.diagonal, *proto.mutable_diagonal());
  if (window.left != -1) proto.set_left(window.left);
  if (window.right != -1) proto.set_right(window.right);
}

// Every part of the mask that is not a tensor.
v1::Mask MaskWithoutTensors(const Mask& mask) {
  v1::Mask proto;
  if (mask.causal) SetDiagonal(*mask.causal, *proto.mutable_causal());
  if (mask.window) SetWindow(*mask.window, *proto.mutable_window());
  proto.mutable_kv_lengths()->Add(mask.kv_lengths.begin(), mask.kv_lengths.end());
  proto.mutable_q_lengths()->Add(mask.q_lengths.begin(), mask.q_lengths.end());
  return proto;
}

void SetHeads(const HeadLayout& heads, v1::HeadLayout& proto) {
  proto.set_num_heads(heads.num_heads);
  proto.set_num_kv_heads(heads.num_kv_heads);
  proto.set_axes(static_cast<v1::HeadLayout::Axes>(heads.axes));
}

v1::AttendOptions OptionsOf(const AttendRequest& request) {
  v1::AttendOptions options;
  options.set_return_attn_weights(request.return_attn_weights);
  options.set_return_intermediates(request.return_intermediates);
  options.set_return_mean_attn_weights(request.return_mean_attn_weights);
  options.set_return_log_sum_exp(request.return_log_sum_exp);
  options.set_top_k(request.top_k);
  if (request.output_dtype) options.set_output_dtype(static_cast<v1::DataType>(*request.output_dtype));
  if (request.compute_dtype) options.set_compute_dtype(static_cast<v1::DataType>(*request.compute_dtype));
  if (request.empty_rows != EmptyRows::kUniform) options.set_empty_rows(static_cast<v1::EmptyRows>(request.empty_rows));
  if (request.scale) options.set_scale(*request.scale);
  if (request.softcap) options.set_softcap(*request.softcap);
  return options;
}

// Every field that is not a tensor. Omits an empty mask and empty options, which mean the same in more bytes.
v1::AttendRequest ToProtoWithoutTensors(const AttendRequest& request) {
  v1::AttendRequest proto;
  proto.set_weight_set(request.weight_set);
  proto.set_version(request.version);
  proto.set_alias(request.alias);
  if (v1::Mask mask = MaskWithoutTensors(request.mask); mask.ByteSizeLong() > 0)
    *proto.mutable_mask() = std::move(mask);
  if (request.heads) SetHeads(*request.heads, *proto.mutable_heads());
  if (v1::AttendOptions options = OptionsOf(request); options.ByteSizeLong() > 0) {
    *proto.mutable_options() = std::move(options);
  }
  proto.set_request_id(request.request_id);
  proto.set_priority(request.priority);
  return proto;
}

}  // namespace

absl::StatusOr<int64_t> CheckedRequestSize(const AttendRequest& request, int64_t max_message_bytes) {
  const auto inputs = InputTensors(request);
  const auto mask_tensors = MaskTensors(request.mask);
  absl::Status status = CheckLengths("mask.kv_lengths", request.mask.kv_lengths, max_message_bytes);
  status.Update(CheckLengths("mask.q_lengths", request.mask.q_lengths, max_message_bytes));
  for (const auto& field : inputs) status.Update(CheckTensor(field.name, *field.tensor, max_message_bytes));
  for (const auto& field : mask_tensors) status.Update(CheckTensor(field.name, *field.tensor, max_message_bytes));
  if (!status.ok()) return status;

  v1::AttendRequest message = ToProtoWithoutTensors(request);
  const bool has_mask = message.has_mask() || !mask_tensors.empty();
  auto mask_size = static_cast<int64_t>(message.mask().ByteSizeLong());
  for (const auto& field : mask_tensors) mask_size += FieldSize(TensorSize(*field.tensor));
  message.clear_mask();
  auto size = static_cast<int64_t>(message.ByteSizeLong());
  for (const auto& field : inputs) size += FieldSize(TensorSize(*field.tensor));
  if (has_mask) size += FieldSize(mask_size);
  if (status = CheckLimit("request", size, max_message_bytes); !status.ok()) return status;
  return size;
}

v1::AttendRequest ToProto(const AttendRequest& request) {
  v1::AttendRequest proto = ToProtoWithoutTensors(request);
  for (const auto& field : InputTensors(request)) SetTensor(*field.tensor, *(proto.*field.mutable_field)());
  for (const auto& field : MaskTensors(request.mask)) {
    SetTensor(*field.tensor, *(proto.mutable_mask()->*field.mutable_field)());
  }
  return proto;
}

absl::StatusOr<v1::AttendRequest> ToProto(const AttendRequest& request, int64_t max_message_bytes) {
  if (auto size = CheckedRequestSize(request, max_message_bytes); !size.ok()) return size.status();
  return ToProto(request);
}

}  // namespace attention
