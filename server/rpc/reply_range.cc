#include "server/rpc/reply_range.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/checkpoint/tensor.h"
#include "server/engine/kernels/row_kernels.h"
#include "server/rpc/proto_conversion.h"

namespace attention::server {
namespace {

// Indexed by FormulaTensor.
constexpr absl::string_view kNames[] = {"query",         "key",         "value",   "scores",
                                        "masked_scores", "log_sum_exp", "context", "output"};

// True for a tensor of a request that is not set, too.
bool IsFinite(const v1::Tensor& tensor) {
  if (tensor.data().empty()) return true;
  const TensorView view = ViewOf(tensor);
  return AllFinite(view.dtype, view.data, *ElementCount(view.shape));
}

// −∞ only hides a key.
bool IsFiniteBias(const v1::Tensor& tensor) {
  if (IsFinite(tensor)) return true;
  const TensorView view = ViewOf(tensor);
  const int64_t count = *ElementCount(view.shape);
  std::array<float, 256> block;
  for (int64_t done = 0; done < count; done += block.size()) {
    const int64_t size = std::min<int64_t>(block.size(), count - done);
    ToFloat32(view.dtype, view.data + done * DTypeSize(view.dtype), size, block.data());
    if (std::any_of(block.begin(), block.begin() + size,
                    [](float bias) { return std::isnan(bias) || bias == std::numeric_limits<float>::infinity(); })) {
      return false;
    }
  }
  return true;
}

}  // namespace

absl::Status CheckReplyRange(const NonFiniteTensors& non_finite, const v1::AttendRequest& request, bool layer_is_finite,
                             const v1::AttendResponse& response) {
  const std::optional<FormulaTensor> first = non_finite.first();
  if (!first || !layer_is_finite) return absl::OkStatus();
  if (!IsFinite(request.inputs_q()) || !IsFinite(request.inputs_k()) || !IsFinite(request.inputs_v()) ||
      !IsFiniteBias(request.bias())) {
    return absl::OkStatus();
  }
  const bool is_output =
      *first == FormulaTensor::kOutput || (*first == FormulaTensor::kContext && request.weight_set().empty());
  const DType dtype = is_output ? *DTypeFromProto(response.output().dtype()) : DType::kFloat32;
  const absl::string_view name = is_output ? "output" : kNames[static_cast<size_t>(*first)];
  return absl::OutOfRangeError(
      absl::StrCat(name, ": expected numbers within the range of ", DTypeName(dtype), ", got a larger one"));
}

}  // namespace attention::server
