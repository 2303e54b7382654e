#include "tests/testing/wire.h"

namespace attention::test {
namespace {

TensorRef Ref(const v1::Tensor& tensor) {
  return {static_cast<DataType>(tensor.dtype()),
          {tensor.shape().data(), static_cast<size_t>(tensor.shape_size())},
          {tensor.data().data(), tensor.data().size()}};
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
  return WireTensor(v1::DATA_TYPE_FLOAT32, shape,
                    std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)));
}

v1::Tensor WireBools(const std::vector<int64_t>& shape, const std::vector<uint8_t>& values) {
  return WireTensor(v1::DATA_TYPE_BOOL, shape, std::string(values.begin(), values.end()));
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
  if (request.mask().has_dense()) result.mask = Ref(request.mask().dense());
  result.return_attn_weights = request.options().return_attn_weights();
  result.return_intermediates = request.options().return_intermediates();
  if (request.options().output_dtype() != v1::DATA_TYPE_UNSPECIFIED) {
    result.output_dtype = static_cast<DataType>(request.options().output_dtype());
  }
  result.request_id = request.request_id();
  result.priority = request.priority();
  return result;
}

absl::Status ToAbsl(const grpc::Status& status) {
  return {static_cast<absl::StatusCode>(status.error_code()), status.error_message()};
}

}  // namespace attention::test
