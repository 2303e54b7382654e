#include "client/internal/request_conversion.h"

#include <google/protobuf/io/coded_stream.h>

#include <optional>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/internal/conversion.h"

namespace attention {
namespace {

struct Field {
  absl::string_view name;
  const TensorRef* tensor;
};

void AddIfSet(absl::string_view name, const std::optional<TensorRef>& tensor, std::vector<Field>& fields) {
  if (tensor) fields.push_back({name, &*tensor});
}

// Tensors that stand in the request itself, and those that stand in the message of its mask.
std::vector<Field> OwnTensors(const AttendRequest& request) {
  std::vector<Field> fields = {{"inputs_q", &request.inputs_q}};
  AddIfSet("inputs_k", request.inputs_k, fields);
  AddIfSet("inputs_v", request.inputs_v, fields);
  AddIfSet("bias", request.bias, fields);
  return fields;
}

std::vector<Field> MaskTensors(const Mask& mask) {
  std::vector<Field> fields;
  AddIfSet("mask.dense", mask.dense, fields);
  AddIfSet("mask.q_segment_ids", mask.q_segment_ids, fields);
  AddIfSet("mask.kv_segment_ids", mask.kv_segment_ids, fields);
  return fields;
}

int64_t VarintSize(uint64_t value) { return google::protobuf::io::CodedOutputStream::VarintSize64(value); }

// A field of a length and so many bytes. All field numbers here are below 16, so that a tag is one byte.
int64_t FieldSize(int64_t length) { return 1 + VarintSize(length) + length; }

// proto3 leaves out a field of length 0.
int64_t OptionalFieldSize(int64_t length) { return length == 0 ? 0 : FieldSize(length); }

// REQUIRES: CheckTensor is OK.
int64_t TensorSize(const TensorRef& tensor) {
  int64_t shape_bytes = 0;
  for (const int64_t axis : tensor.shape) shape_bytes += VarintSize(axis);
  const int64_t dtype_bytes = 2;
  return dtype_bytes + OptionalFieldSize(shape_bytes) + OptionalFieldSize(static_cast<int64_t>(tensor.bytes.size()));
}

absl::Status TooLarge(absl::string_view what, int64_t bytes, int64_t limit) {
  return absl::ResourceExhaustedError(
      absl::StrCat(what, ": ", bytes, " bytes are more than the limit of ", limit, " bytes (max_message_bytes)"));
}

// Each tensor alone is held against the limit too, so that the sum over them cannot overflow.
absl::Status CheckTensor(const Field& field, int64_t max_message_bytes) {
  const TensorRef& tensor = *field.tensor;
  const absl::StatusOr<int64_t> wanted = ByteSize(tensor.dtype, tensor.shape);
  if (!wanted.ok()) return absl::InvalidArgumentError(absl::StrCat(field.name, ": ", wanted.status().message()));
  if (static_cast<uint64_t>(*wanted) != tensor.bytes.size()) {
    return absl::InvalidArgumentError(absl::StrCat(field.name, ": shape [", absl::StrJoin(tensor.shape, ", "), "] of ",
                                                   Name(tensor.dtype), " takes ", *wanted, " bytes, got ",
                                                   tensor.bytes.size()));
  }
  if (*wanted > max_message_bytes) return TooLarge(field.name, *wanted, max_message_bytes);
  return absl::OkStatus();
}

// A length is at least one byte in the message. More of them than the limit would not fit into a message's array.
absl::Status CheckLengths(absl::string_view name, absl::Span<const int64_t> lengths, int64_t max_message_bytes) {
  const auto count = static_cast<int64_t>(lengths.size());
  return count > max_message_bytes ? TooLarge(name, count, max_message_bytes) : absl::OkStatus();
}

void CopyTensor(const TensorRef& tensor, v1::Tensor& proto) {
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

// A message without a mask says the same as one with an empty mask, in fewer bytes.
bool HasDescriptors(const Mask& mask) {
  return mask.causal || mask.window || !mask.kv_lengths.empty() || !mask.q_lengths.empty();
}

void SetDescriptors(const Mask& mask, v1::Mask& proto) {
  if (mask.causal) SetDiagonal(*mask.causal, *proto.mutable_causal());
  if (mask.window) SetWindow(*mask.window, *proto.mutable_window());
  proto.mutable_kv_lengths()->Add(mask.kv_lengths.begin(), mask.kv_lengths.end());
  proto.mutable_q_lengths()->Add(mask.q_lengths.begin(), mask.q_lengths.end());
}

void SetHeads(const HeadLayout& heads, v1::HeadLayout& proto) {
  proto.set_num_heads(heads.num_heads);
  proto.set_num_kv_heads(heads.num_kv_heads);
  proto.set_axes(static_cast<v1::HeadLayout::Axes>(heads.axes));
}

v1::AttendOptions ToOptions(const AttendRequest& request) {
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

}  // namespace

absl::StatusOr<int64_t> CheckedRequestSize(const AttendRequest& request, int64_t max_message_bytes) {
  const std::vector<Field> tensors = OwnTensors(request);
  const std::vector<Field> mask_tensors = MaskTensors(request.mask);
  absl::Status status = CheckLengths("mask.kv_lengths", request.mask.kv_lengths, max_message_bytes);
  status.Update(CheckLengths("mask.q_lengths", request.mask.q_lengths, max_message_bytes));
  for (const Field& field : tensors) status.Update(CheckTensor(field, max_message_bytes));
  for (const Field& field : mask_tensors) status.Update(CheckTensor(field, max_message_bytes));
  if (!status.ok()) return status;

  v1::AttendRequest message = ToProtoWithoutTensors(request);
  const bool has_mask = message.has_mask() || !mask_tensors.empty();
  auto mask_size = static_cast<int64_t>(message.mask().ByteSizeLong());
  for (const Field& field : mask_tensors) mask_size += FieldSize(TensorSize(*field.tensor));
  message.clear_mask();
  auto size = static_cast<int64_t>(message.ByteSizeLong());
  for (const Field& field : tensors) size += FieldSize(TensorSize(*field.tensor));
  if (has_mask) size += FieldSize(mask_size);
  if (size > max_message_bytes) return TooLarge("request", size, max_message_bytes);
  return size;
}

v1::AttendRequest ToProtoWithoutTensors(const AttendRequest& request) {
  v1::AttendRequest proto;
  proto.set_weight_set(request.weight_set);
  proto.set_version(request.version);
  proto.set_alias(request.alias);
  if (HasDescriptors(request.mask)) SetDescriptors(request.mask, *proto.mutable_mask());
  if (request.heads) SetHeads(*request.heads, *proto.mutable_heads());
  const v1::AttendOptions options = ToOptions(request);
  if (options.ByteSizeLong() > 0) *proto.mutable_options() = options;
  proto.set_request_id(request.request_id);
  proto.set_priority(request.priority);
  return proto;
}

v1::AttendRequest ToProto(const AttendRequest& request) {
  v1::AttendRequest proto = ToProtoWithoutTensors(request);
  CopyTensor(request.inputs_q, *proto.mutable_inputs_q());
  if (request.inputs_k) CopyTensor(*request.inputs_k, *proto.mutable_inputs_k());
  if (request.inputs_v) CopyTensor(*request.inputs_v, *proto.mutable_inputs_v());
  if (request.bias) CopyTensor(*request.bias, *proto.mutable_bias());
  const Mask& mask = request.mask;
  if (mask.dense) CopyTensor(*mask.dense, *proto.mutable_mask()->mutable_dense());
  if (mask.q_segment_ids) CopyTensor(*mask.q_segment_ids, *proto.mutable_mask()->mutable_q_segment_ids());
  if (mask.kv_segment_ids) CopyTensor(*mask.kv_segment_ids, *proto.mutable_mask()->mutable_kv_segment_ids());
  return proto;
}

}  // namespace attention
