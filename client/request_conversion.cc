#include <optional>
#include <variant>

#include "client/conversion.h"

namespace attention {
namespace {

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
