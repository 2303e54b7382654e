#include "tests/testing/server/wire.h"

namespace attention::test {
namespace {

TensorRef Ref(const v1::Tensor& tensor) {
  return {static_cast<DataType>(tensor.dtype()),
          {tensor.shape().data(), static_cast<size_t>(tensor.shape_size())},
          {tensor.data().data(), tensor.data().size()}};
}

template <typename Number>
std::string Bytes(const std::vector<Number>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Number)};
}

absl::Span<const int64_t> Span(const google::protobuf::RepeatedField<int64_t>& numbers) {
  return {numbers.data(), static_cast<size_t>(numbers.size())};
}

Diagonal ClientDiagonal(const v1::Diagonal& diagonal) {
  if (diagonal.has_offset()) return diagonal.offset();
  return static_cast<Corner>(diagonal.corner());
}

Mask ClientMask(const v1::Mask& mask) {
  Mask result;
  if (mask.has_dense()) result.dense = Ref(mask.dense());
  if (mask.has_causal()) result.causal = ClientDiagonal(mask.causal());
  if (mask.has_window()) {
    const v1::SlidingWindow& window = mask.window();
    result.window = SlidingWindow{ClientDiagonal(window.diagonal()), window.has_left() ? window.left() : -1,
                                  window.has_right() ? window.right() : -1};
  }
  result.kv_lengths = Span(mask.kv_lengths());
  result.q_lengths = Span(mask.q_lengths());
  if (mask.has_q_segment_ids()) result.q_segment_ids = Ref(mask.q_segment_ids());
  if (mask.has_kv_segment_ids()) result.kv_segment_ids = Ref(mask.kv_segment_ids());
  return result;
}

void CopyOptions(const v1::AttendOptions& options, AttendRequest& to) {
  to.return_attn_weights = options.return_attn_weights();
  to.return_intermediates = options.return_intermediates();
  to.return_mean_attn_weights = options.return_mean_attn_weights();
  to.return_log_sum_exp = options.return_log_sum_exp();
  to.top_k = options.top_k();
  if (options.output_dtype() != v1::DATA_TYPE_UNSPECIFIED) {
    to.output_dtype = static_cast<DataType>(options.output_dtype());
  }
  if (options.compute_dtype() != v1::DATA_TYPE_UNSPECIFIED) {
    to.compute_dtype = static_cast<DataType>(options.compute_dtype());
  }
  if (options.empty_rows() != v1::EMPTY_ROWS_UNSPECIFIED) {
    to.empty_rows = static_cast<EmptyRows>(options.empty_rows());
  }
  if (options.has_scale()) to.scale = options.scale();
  if (options.has_softcap()) to.softcap = options.softcap();
}

}  // namespace

v1::Tensor WireTensor(v1::DataType dtype, const std::vector<int64_t>& shape, std::string data) {
  v1::Tensor tensor;
  tensor.set_dtype(dtype);
  tensor.mutable_shape()->Add(shape.begin(), shape.end());
  tensor.set_data(std::move(data));
  return tensor;
}

v1::Tensor WireFloats(const std::vector<int64_t>& shape, const std::vector<float>& values) {
  return WireTensor(v1::DATA_TYPE_FLOAT32, shape, Bytes(values));
}

v1::Tensor WireBools(const std::vector<int64_t>& shape, const std::vector<uint8_t>& values) {
  return WireTensor(v1::DATA_TYPE_BOOL, shape, std::string(values.begin(), values.end()));
}

v1::Tensor WireInt32s(const std::vector<int64_t>& shape, const std::vector<int32_t>& values) {
  return WireTensor(v1::DATA_TYPE_INT32, shape, Bytes(values));
}

v1::Tensor WireInt64s(const std::vector<int64_t>& shape, const std::vector<int64_t>& values) {
  return WireTensor(v1::DATA_TYPE_INT64, shape, Bytes(values));
}

v1::Tensor WireTensor(const server::TensorView& tensor) {
  const int64_t bytes = *server::ByteCount(tensor.shape, tensor.dtype);
  return WireTensor(static_cast<v1::DataType>(tensor.dtype), {tensor.shape.begin(), tensor.shape.end()},
                    std::string(reinterpret_cast<const char*>(tensor.data), bytes));
}

Tensor ClientTensor(const v1::Tensor& tensor) {
  return {static_cast<DataType>(tensor.dtype()), {tensor.shape().begin(), tensor.shape().end()}, tensor.data()};
}

AttendRequest ClientRequest(const v1::AttendRequest& request) {
  AttendRequest result;
  result.weight_set = request.weight_set();
  result.version = request.version();
  result.inputs_q = Ref(request.inputs_q());
  if (request.has_inputs_k()) result.inputs_k = Ref(request.inputs_k());
  if (request.has_inputs_v()) result.inputs_v = Ref(request.inputs_v());
  result.mask = ClientMask(request.mask());
  if (request.has_bias()) result.bias = Ref(request.bias());
  if (request.has_heads()) {
    const v1::HeadLayout& heads = request.heads();
    result.heads = HeadLayout{heads.num_heads(), heads.num_kv_heads(), static_cast<HeadAxes>(heads.axes())};
  }
  CopyOptions(request.options(), result);
  result.request_id = request.request_id();
  result.priority = request.priority();
  return result;
}

}  // namespace attention::test
