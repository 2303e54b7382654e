#pragma once

#include <grpcpp/support/status.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "attention/v1/attention.pb.h"
#include "client/attention_client.h"
#include "client/tensor.h"
#include "server/checkpoint/tensor.h"

namespace attention::test {

// A tensor as it goes over the wire, whatever its shape and bytes say about each other.
v1::Tensor WireTensor(v1::DataType dtype, const std::vector<int64_t>& shape, std::string data);

// The same, float32, a mask or segment ids, from numbers.
v1::Tensor WireFloats(const std::vector<int64_t>& shape, const std::vector<float>& values);
v1::Tensor WireBools(const std::vector<int64_t>& shape, const std::vector<uint8_t>& values);
v1::Tensor WireInt32s(const std::vector<int64_t>& shape, const std::vector<int32_t>& values);
v1::Tensor WireInt64s(const std::vector<int64_t>& shape, const std::vector<int64_t>& values);

// The same from a file.
v1::Tensor WireTensor(const server::TensorView& tensor);

// REQUIRES: a dtype that the client knows.
Tensor ClientTensor(const v1::Tensor& tensor);

// The request as the client library takes it. Points into `request`, which must stay.
// REQUIRES: dtypes that the client knows, and a corner or an offset in each diagonal.
AttendRequest ClientRequest(const v1::AttendRequest& request);

absl::Status ToAbsl(const grpc::Status& status);

}  // namespace attention::test
