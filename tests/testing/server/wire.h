#pragma once

#include <string>
#include <utility>
#include <vector>

#include "attention/v1/attention.pb.h"
#include "client/attention_client.h"
#include "client/tensor.h"
#include "server/checkpoint/tensor.h"

namespace attention::test {

// A tensor message. Shape and bytes need not agree.
v1::Tensor WireTensor(v1::DataType dtype, const std::vector<int64_t>& shape, std::string data);

// Tensor messages from elements.
v1::Tensor WireFloats(const std::vector<int64_t>& shape, const std::vector<float>& values);
v1::Tensor WireBools(const std::vector<int64_t>& shape, const std::vector<uint8_t>& values);
v1::Tensor WireInt32s(const std::vector<int64_t>& shape, const std::vector<int32_t>& values);
v1::Tensor WireInt64s(const std::vector<int64_t>& shape, const std::vector<int64_t>& values);

// A tensor message from a view.
v1::Tensor WireTensor(const server::TensorView& tensor);

// The client's tensor of a message. REQUIRES: the client knows the dtype.
Tensor ClientTensor(const v1::Tensor& tensor);

// The client library's form of a request. Points into `request`, which must outlive it.
// REQUIRES: the client knows the dtypes, and each diagonal has a corner or an offset.
AttendRequest ClientRequest(const v1::AttendRequest& request);

}  // namespace attention::test
