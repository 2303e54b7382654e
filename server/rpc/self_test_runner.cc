#include "server/rpc/self_test_runner.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "attention/v1/attention.pb.h"
#include "server/checkpoint/field_error.h"
#include "server/engine/call_cost.h"
#include "server/engine/stop_token.h"
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

// The element with the largest difference relative to what the tolerance allows there. NaN counts as infinite.
struct Worst {
  size_t element = 0;
  double difference = 0;
  double share = 0;  // difference / allowed difference
};

Worst FindWorst(const std::vector<float>& actual, const std::vector<float>& expected, double tolerance) {
  Worst worst;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double difference = std::abs(double{actual[i]} - double{expected[i]});
    const double share = difference / (tolerance * std::max(1.0, std::abs(double{expected[i]})));
    // 0 / 0 is NaN: no difference, and none is allowed.
    const bool differs = difference > 0 || std::isnan(difference);
    const double comparable = std::isnan(share) ? (differs ? INFINITY : 0) : share;
    if (comparable > worst.share) worst = {i, difference, comparable};
  }
  return worst;
}

// "[0, 3, 17]"
std::string Position(size_t element, const Shape& shape) {
  Shape position(shape.size());
  for (size_t axis = shape.size(); axis-- > 0;) {
    position[axis] = static_cast<int64_t>(element % shape[axis]);
    element /= shape[axis];
  }
  return ShapeString(position);
}

}  // namespace

absl::Status CompareWithSelfTest(const SelfTestOutput& actual, const SelfTestTensors& test) {
  if (actual.shape != test.output->shape) {
    return FieldError(EscapeForMessage(test.output->name), absl::StrCat("shape ", ShapeString(actual.shape)),
                      ShapeString(test.output->shape));
  }
  std::vector<float> expected(actual.values.size());
  ToFloat32(test.output->dtype, test.output->data.data(), static_cast<int64_t>(expected.size()), expected.data());
  const Worst worst = FindWorst(actual.values, expected, test.tolerance);
  if (worst.share <= 1) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "output ", Position(worst.element, actual.shape), ": expected ", expected[worst.element], ", got ",
      actual.values[worst.element], "; the difference ", worst.difference, " exceeds the tolerance ", test.tolerance));
}

absl::Status RequestSelfTestRunner::Run(const SelfTestTensors& test, const Layer& layer) {
  const auto output = Compute(test, layer);
  return output.ok() ? CompareWithSelfTest(*output, test) : output.status();
}

absl::StatusOr<SelfTestOutput> RequestSelfTestRunner::Compute(const SelfTestTensors& test, const Layer& layer) {
  const v1::AttendRequest request = MakeRequest(test);
  auto checked = CheckRequest(request, &layer.shape(), limits_.max_message_bytes);
  if (!checked.ok()) return checked.status();
  v1::AttendResponse response;
  AllocateReply(checked->reply, &response, &checked->call);
  if (!checked->nothing_to_compute()) {
    const int64_t bytes = WorkingBytes(checked->call, true, 1);
    if (bytes > limits_.max_inflight_bytes) {
      return absl::ResourceExhaustedError(absl::StrCat("--max-inflight-bytes: expected at most ",
                                                       limits_.max_inflight_bytes, " bytes of working memory, got ",
                                                       bytes));
    }
    if (engine_ == nullptr) {
      auto engine = Engine::Create(1);
      if (!engine.ok()) return engine.status();
      engine_ = *std::move(engine);
    }
    const StopToken stop(absl::InfiniteFuture(), limits_.server_stops);
    checked->call.stop = &stop;
    if (auto status = engine_->Compute(&layer, {&checked->call}); !status.ok()) return status;
    if (auto status = stop.Check(SteadyNow()); !status.ok()) return status;
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
