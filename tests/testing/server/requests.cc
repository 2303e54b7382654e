#include "tests/testing/server/requests.h"

#include <algorithm>

#include "tests/testing/reference/reference_request.h"
#include "tests/testing/server/wire.h"

namespace attention::test {
namespace {

using Sizes = std::vector<int64_t>;

v1::Tensor DrawTensor(Sizes batch, const Sizes& axes, std::mt19937& random) {
  batch.insert(batch.end(), axes.begin(), axes.end());
  return WireFloats(batch, DrawNumbers(*server::ElementCount(batch), random));
}

Sizes DrawBatchAxes(std::mt19937& random) {
  Sizes batch;
  for (int64_t axes = DrawInteger(0, 2, random); axes > 0; --axes) batch.push_back(DrawInteger(1, 2, random));
  return batch;
}

Sizes InputAxes(v1::HeadLayout::Axes axes, int64_t length, int64_t heads, int64_t width) {
  switch (axes) {
    case v1::HeadLayout::AXES_LENGTH_FEATURES:
      return {length, heads * width};
    case v1::HeadLayout::AXES_LENGTH_HEADS:
      return {length, heads, width};
    default:
      return {heads, length, width};
  }
}

}  // namespace

int64_t DrawInteger(int64_t low, int64_t high, std::mt19937& random) {
  return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
}

std::vector<float> DrawNumbers(int64_t count, std::mt19937& random) {
  std::vector<float> numbers(count);
  for (float& number : numbers) number = static_cast<float>(random() / 1073741824.0 - 2.0);
  return numbers;
}

v1::AttendRequest QuestionRequest(const std::string& weight_set) {
  v1::AttendRequest request;
  request.set_weight_set(weight_set);
  *request.mutable_inputs_q() = WireFloats({1, 2, 3}, {1, 1, 1, 1, 1, 1});
  *request.mutable_inputs_k() = WireFloats({1, 2, 3}, {2, 1, 1, 1, 1, 1});
  return request;
}

Expected QuestionAnswer() { return {{1, 2, 4}, std::vector<double>(8, 3.99752738), 1e-6, 0}; }

v1::AttendRequest ConstantRequest(const std::string& weight_set, float value) {
  v1::AttendRequest request;
  request.set_weight_set(weight_set);
  *request.mutable_inputs_q() = WireFloats({1, 3}, std::vector<float>(3, value));
  *request.mutable_inputs_k() = WireFloats({5, 3}, std::vector<float>(15, value));
  return request;
}

Expected ConstantAnswer(float value) { return {{1, 4}, std::vector<double>(4, 3 * value), 0, 1e-6}; }

v1::AttendRequest DrawRequest(const server::LayerShape& layer, const RandomLimits& limits, std::mt19937& random) {
  const Sizes batch = DrawBatchAxes(random);
  const bool same_widths = layer.in_k_features == layer.in_features && layer.in_v_features == layer.in_features;
  const bool self = same_widths && random() % 3 == 0;
  const bool leave_v_out = layer.in_v_features == layer.in_k_features && random() % 2 == 0;
  v1::AttendRequest request;
  *request.mutable_inputs_q() =
      DrawTensor(batch, {DrawInteger(1, limits.max_q_length, random), layer.in_features}, random);
  if (self) return request;
  const int64_t kv_length = DrawInteger(1, limits.max_kv_length, random);
  *request.mutable_inputs_k() = DrawTensor(batch, {kv_length, layer.in_k_features}, random);
  if (!leave_v_out) *request.mutable_inputs_v() = DrawTensor(batch, {kv_length, layer.in_v_features}, random);
  return request;
}

v1::AttendRequest DrawRequest(const server::HeadShape& heads, const RandomLimits& limits, std::mt19937& random) {
  const Sizes batch = DrawBatchAxes(random);
  const auto axes = static_cast<v1::HeadLayout::Axes>(DrawInteger(1, 3, random));
  const bool same = heads.num_heads == heads.num_kv_heads && heads.head_dim == heads.value_head_dim;
  const bool self = same && random() % 3 == 0;
  const bool leave_v_out = heads.head_dim == heads.value_head_dim && random() % 2 == 0;
  v1::AttendRequest request;
  request.mutable_heads()->set_num_heads(heads.num_heads);
  if (heads.num_heads != heads.num_kv_heads || random() % 2 == 0) {
    request.mutable_heads()->set_num_kv_heads(heads.num_kv_heads);
  }
  request.mutable_heads()->set_axes(axes);
  const int64_t q_length = DrawInteger(1, limits.max_q_length, random);
  *request.mutable_inputs_q() = DrawTensor(batch, InputAxes(axes, q_length, heads.num_heads, heads.head_dim), random);
  if (self) return request;
  const int64_t kv_length = DrawInteger(1, limits.max_kv_length, random);
  *request.mutable_inputs_k() =
      DrawTensor(batch, InputAxes(axes, kv_length, heads.num_kv_heads, heads.head_dim), random);
  if (!leave_v_out) {
    *request.mutable_inputs_v() =
        DrawTensor(batch, InputAxes(axes, kv_length, heads.num_kv_heads, heads.value_head_dim), random);
  }
  return request;
}

void AskForEverything(const server::HeadShape& heads, v1::AttendRequest& request) {
  v1::AttendOptions& options = *request.mutable_options();
  options.set_return_attn_weights(true);
  options.set_return_intermediates(true);
  options.set_return_mean_attn_weights(true);
  options.set_return_log_sum_exp(true);
  options.set_top_k(std::min<int64_t>(3, ScoresShape(request, heads).back()));
}

}  // namespace attention::test
