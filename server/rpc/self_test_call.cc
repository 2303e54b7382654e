#include "server/rpc/self_test_call.h"

#include "absl/strings/str_cat.h"
#include "attention/v1/attention.pb.h"
#include "server/engine/engine.h"
#include "server/rpc/reply_plan.h"
#include "server/rpc/validation/request_validation.h"
#include "server/rpc/validation/tensor_validation.h"

namespace attention::server {
namespace {

void Fill(const NamedTensor* tensor, v1::Tensor* filled) {
  filled->set_dtype(DTypeToProto(tensor->dtype));
  filled->mutable_shape()->Add(tensor->shape.begin(), tensor->shape.end());
  filled->set_data(tensor->data.data(), tensor->data.size());
}

v1::AttendRequest MakeRequest(const SelfTestTensors& test) {
  v1::AttendRequest request;
  Fill(test.inputs_q, request.mutable_inputs_q());
  if (test.inputs_k != nullptr) Fill(test.inputs_k, request.mutable_inputs_k());
  if (test.inputs_v != nullptr) Fill(test.inputs_v, request.mutable_inputs_v());
  if (test.mask != nullptr) Fill(test.mask, request.mutable_mask()->mutable_dense());
  request.mutable_options()->set_output_dtype(v1::DATA_TYPE_FLOAT32);
  return request;
}

}  // namespace

absl::StatusOr<SelfTestOutput> AttendSelfTest(const SelfTestContext& context, const Layer& layer,
                                              const SelfTestTensors& test) {
  const v1::AttendRequest request = MakeRequest(test);
  auto checked = CheckRequest(request, &layer.shape(), context.max_message_bytes);
  if (!checked.ok()) return checked.status();
  v1::AttendResponse response;
  AllocateReply(checked->reply, &response, &checked->call);
  if (!checked->nothing_to_compute()) {
    const int64_t bytes = WorkingBytes(checked->call, true, 1);
    if (bytes > context.max_inflight_bytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat(bytes, " bytes to compute it in, --max-inflight-bytes allows ", context.max_inflight_bytes));
    }
    if (auto status = context.compute(layer, checked->call); !status.ok()) return status;
  }
  SelfTestOutput output;
  const absl::Span<const int64_t> shape = ShapeOf(response.output());
  output.shape.assign(shape.begin(), shape.end());
  output.values.resize(response.output().data().size() / sizeof(float));
  ToFloat32(DType::kFloat32, ViewOf(response.output()).data, static_cast<int64_t>(output.values.size()),
            output.values.data());
  return output;
}

}  // namespace attention::server
