#include "tests/testing/files/weights.h"

#include <cmath>
#include <random>

#include "server/checkpoint/formats/safetensors.h"

namespace attention::test {
namespace {

using server::LayerParameters;
using server::LayerShape;

// Not a distribution of <random>, because those differ between standard libraries.
class Random {
 public:
  explicit Random(uint32_t seed) : bits_(seed) {}

  // Uniform in [-scale, scale].
  std::vector<float> Numbers(int64_t count, double scale) {
    std::vector<float> numbers(count);
    for (float& number : numbers) number = static_cast<float>((bits_() / 2147483648.0 - 1.0) * scale);
    return numbers;
  }

 private:
  std::mt19937 bits_;
};

}  // namespace

Parameter FloatParameter(std::string name, server::Shape shape, const std::vector<float>& values) {
  return {std::move(name), server::DType::kFloat32, std::move(shape),
          std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float))};
}

Parameters ToParameters(const LayerParameters& layer, const std::string& prefix) {
  const LayerShape& s = layer.shape;
  const server::HeadShape& h = s.heads;
  const bool has_bias =
      !layer.query_bias.empty() || !layer.key_bias.empty() || !layer.value_bias.empty() || !layer.out_bias.empty();
  Parameters result;
  const auto add = [&](const char* name, server::Shape shape, const std::vector<float>& values) {
    if (!values.empty()) result.push_back(FloatParameter(prefix + name, std::move(shape), values));
  };
  const auto add_bias = [&](const char* name, server::Shape shape, std::vector<float> values) {
    if (has_bias && values.empty()) values.resize(*server::ElementCount(shape));
    add(name, std::move(shape), values);
  };
  add("query/kernel", {s.in_features, h.num_heads, h.head_dim}, layer.query_kernel);
  add_bias("query/bias", {h.num_heads, h.head_dim}, layer.query_bias);
  add("key/kernel", {s.in_k_features, h.num_kv_heads, h.head_dim}, layer.key_kernel);
  add_bias("key/bias", {h.num_kv_heads, h.head_dim}, layer.key_bias);
  add("value/kernel", {s.in_v_features, h.num_kv_heads, h.value_head_dim}, layer.value_kernel);
  add_bias("value/bias", {h.num_kv_heads, h.value_head_dim}, layer.value_bias);
  add("out/kernel", {h.num_heads, h.value_head_dim, s.out_features}, layer.out_kernel);
  add_bias("out/bias", {s.out_features}, layer.out_bias);
  add("query_ln/scale", {h.head_dim}, layer.query_ln_scale);
  add("key_ln/scale", {h.head_dim}, layer.key_ln_scale);
  return result;
}

LayerParameters RandomLayer(const LayerShape& shape, uint32_t seed) {
  const server::HeadShape& heads = shape.heads;
  Random random(seed);
  const auto kernel = [&](int64_t in, int64_t out) {
    return random.Numbers(in * out, std::sqrt(3.0 / static_cast<double>(in)));
  };
  LayerParameters layer;
  layer.shape = shape;
  layer.query_kernel = kernel(shape.in_features, heads.query_features());
  layer.key_kernel = kernel(shape.in_k_features, heads.key_features());
  layer.value_kernel = kernel(shape.in_v_features, heads.value_features());
  layer.out_kernel = kernel(heads.context_features(), shape.out_features);
  layer.query_bias = random.Numbers(heads.query_features(), 0.5);
  layer.key_bias = random.Numbers(heads.key_features(), 0.5);
  layer.value_bias = random.Numbers(heads.value_features(), 0.5);
  layer.out_bias = random.Numbers(shape.out_features, 0.5);
  return layer;
}

LayerParameters WithLayerNorm(LayerParameters layer, uint32_t seed) {
  Random random(seed);
  layer.query_ln_scale = random.Numbers(layer.shape.heads.head_dim, 1.5);
  layer.key_ln_scale = random.Numbers(layer.shape.heads.head_dim, 1.5);
  return layer;
}

LayerParameters OnesLayer() {
  LayerParameters layer;
  layer.shape = {.in_features = 3,
                 .in_k_features = 3,
                 .in_v_features = 3,
                 .heads = {.num_heads = 1, .num_kv_heads = 1, .head_dim = 4, .value_head_dim = 4},
                 .out_features = 4};
  layer.query_kernel = layer.key_kernel = layer.value_kernel = std::vector<float>(12, 1.0f);
  layer.out_kernel = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1};
  return layer;
}

LayerParameters IdentityLayer(int64_t features) {
  LayerParameters layer;
  layer.shape = {features, features, features, {1, 1, features, features}, features};
  layer.query_kernel.resize(features * features);
  for (int64_t i = 0; i < features; ++i) layer.query_kernel[i * features + i] = 1;
  layer.key_kernel = layer.value_kernel = layer.out_kernel = layer.query_kernel;
  return layer;
}

std::string Serialize(const Parameters& parameters) {
  std::vector<server::NamedTensor> tensors;
  for (const Parameter& p : parameters) {
    const auto* data = reinterpret_cast<const std::byte*>(p.bytes.data());
    tensors.push_back({p.name, p.dtype, p.shape, {data, p.bytes.size()}});
  }
  const std::vector<std::byte> file = server::SerializeSafetensors(tensors).value();
  return {reinterpret_cast<const char*>(file.data()), file.size()};
}

}  // namespace attention::test
