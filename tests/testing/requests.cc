#include "tests/testing/requests.h"

#include <algorithm>

#include "tests/testing/wire.h"

namespace attention::test {
namespace {

// Even in [low, high]; drawn by hand, since the standard's distributions differ between libraries.
int64_t DrawInteger(int64_t low, int64_t high, std::mt19937& random) {
  return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
}

// Even in [-2, 2].
std::vector<float> DrawNumbers(int64_t count, std::mt19937& random) {
  std::vector<float> numbers(count);
  for (float& number : numbers) number = static_cast<float>(random() / 1073741824.0 - 2.0);
  return numbers;
}

v1::Tensor DrawInputs(std::vector<int64_t> batch, int64_t length, int64_t features, std::mt19937& random) {
  batch.push_back(length);
  batch.push_back(features);
  return WireFloats(batch, DrawNumbers(*server::ElementCount(batch), random));
}

// Some axes left out, some of size 1, three of four entries true.
v1::Tensor DrawMask(const std::vector<int64_t>& full, std::mt19937& random) {
  std::vector<int64_t> shape(full.begin() + DrawInteger(0, static_cast<int64_t>(full.size()), random), full.end());
  for (int64_t& size : shape) {
    if (random() % 2 == 0) size = 1;
  }
  std::vector<uint8_t> mask(*server::ElementCount(shape));
  for (uint8_t& entry : mask) entry = random() % 4 != 0;
  return WireBools(shape, mask);
}

std::vector<double> Doubles(const v1::Tensor& tensor) { return Values(ClientTensor(tensor)); }

}  // namespace

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

RandomCall DrawCall(const server::LayerShape& layer, const RandomLimits& limits, std::mt19937& random) {
  std::vector<int64_t> batch;
  for (int64_t axes = DrawInteger(0, 2, random); axes > 0; --axes) batch.push_back(DrawInteger(1, 2, random));
  const bool same_widths = layer.in_k_features == layer.in_features && layer.in_v_features == layer.in_features;
  const bool self = same_widths && random() % 3 == 0;
  const bool leave_v_out = layer.in_v_features == layer.in_k_features && random() % 2 == 0;

  RandomCall call;
  ReferenceInputs& reference = call.reference;
  reference.batch = *server::ElementCount(batch);
  reference.q_length = DrawInteger(1, limits.max_q_length, random);
  reference.kv_length = self ? reference.q_length : DrawInteger(1, limits.max_kv_length, random);

  v1::AttendRequest& request = call.request;
  *request.mutable_inputs_q() = DrawInputs(batch, reference.q_length, layer.in_features, random);
  reference.inputs_q = reference.inputs_k = Doubles(request.inputs_q());
  if (!self) {
    *request.mutable_inputs_k() = DrawInputs(batch, reference.kv_length, layer.in_k_features, random);
    reference.inputs_k = Doubles(request.inputs_k());
  }
  reference.inputs_v = reference.inputs_k;
  if (!self && !leave_v_out) {
    *request.mutable_inputs_v() = DrawInputs(batch, reference.kv_length, layer.in_v_features, random);
    reference.inputs_v = Doubles(request.inputs_v());
  }
  if (random() % 3 != 0) {
    std::vector<int64_t> scores = batch;
    scores.insert(scores.end(), {layer.num_heads, reference.q_length, reference.kv_length});
    const v1::Tensor mask = DrawMask(scores, random);
    const std::vector<uint8_t> bytes(mask.data().begin(), mask.data().end());
    const std::vector<int64_t> mask_shape(mask.shape().begin(), mask.shape().end());
    reference.mask = BroadcastMask(bytes, mask_shape, scores);
    *request.mutable_mask()->mutable_dense() = mask;
  }
  return call;
}

}  // namespace attention::test
