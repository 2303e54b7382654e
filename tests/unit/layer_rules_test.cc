#include "server/weights/layer_rules.h"

#include <gmock/gmock.h>

#include <functional>

#include "server/weights/formats/safetensors.h"
#include "tests/testing/matchers.h"
#include "tests/testing/weights.h"

namespace attention::server {
namespace {

using ::attention::test::FloatParameter;
using ::attention::test::Parameter;
using ::attention::test::Parameters;
using ::attention::test::RandomLayer;
using ::attention::test::StatusIs;
using ::attention::test::ToParameters;
using ::attention::test::WithLayerNorm;

// Four heads of queries, two of keys and values, these of another size.
constexpr LayerShape kShape = {.in_features = 3,
                               .in_k_features = 5,
                               .in_v_features = 6,
                               .heads = {.num_heads = 4, .num_kv_heads = 2, .head_dim = 4, .value_head_dim = 3},
                               .out_features = 7};

Parameters Layer(const std::string& prefix) { return ToParameters(WithLayerNorm(RandomLayer(kShape, 1), 2), prefix); }

Parameters operator+(Parameters a, const Parameters& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Parameter Ones(const std::string& name, const Shape& shape) {
  return FloatParameter(name, shape, std::vector<float>(*ElementCount(shape), 1.0f));
}

struct Fault {
  std::string name;
  std::function<void(Parameters&)> damage;  // of a good layer below "a/"
  std::string message;
};

void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }

class LayerRulesTest : public ::testing::TestWithParam<Fault> {};

TEST_P(LayerRulesTest, IsRefused) {
  Parameters parameters = Layer("a/");
  GetParam().damage(parameters);
  const std::string file = test::Serialize(parameters);
  const auto tensors = ParseSafetensors({reinterpret_cast<const std::byte*>(file.data()), file.size()});
  EXPECT_THAT(FindLayers("ocr", *tensors), StatusIs(absl::StatusCode::kInvalidArgument, GetParam().message));
}

// Gives one parameter another shape, and as many ones as it takes.
std::function<void(Parameters&)> Reshape(const std::string& name, const Shape& shape) {
  return [=](Parameters& parameters) {
    for (Parameter& parameter : parameters) {
      if (parameter.name == name) parameter = Ones(name, shape);
    }
  };
}

std::function<void(Parameters&)> Remove(const std::string& name) {
  return [=](Parameters& parameters) { std::erase_if(parameters, [&](const Parameter& p) { return p.name == name; }); };
}

std::function<void(Parameters&)> Add(const Parameters& more) {
  return [=](Parameters& parameters) { parameters = parameters + more; };
}

std::function<void(Parameters&)> MakeIntegers(const std::string& name) {
  return [=](Parameters& parameters) {
    for (Parameter& parameter : parameters) {
      if (parameter.name == name) parameter.dtype = DType::kInt32;
    }
  };
}

const Fault kShapes[] = {
    {"KeySameCount", Reshape("a/key/kernel", {5, 4, 2}),
     "a/key/kernel: shape [5, 4, 2], wanted [5, num_kv_heads, 4], num_kv_heads a divisor of 4, to go with "
     "a/query/kernel [3, 4, 4]"},
    {"KeyHeadsNoDivisor", Reshape("a/key/kernel", {5, 3, 4}),
     "a/key/kernel: shape [5, 3, 4], wanted [5, num_kv_heads, 4], num_kv_heads a divisor of 4, to go with "
     "a/query/kernel [3, 4, 4]"},
    {"MoreKeyHeadsThanHeads", Reshape("a/key/kernel", {5, 8, 4}),
     "a/key/kernel: shape [5, 8, 4], wanted [5, num_kv_heads, 4], num_kv_heads a divisor of 4, to go with "
     "a/query/kernel [3, 4, 4]"},
    {"ValueOfOtherHeads", Reshape("a/value/kernel", {6, 4, 3}),
     "a/value/kernel: shape [6, 4, 3], wanted [6, 2, 3] to go with a/key/kernel [5, 2, 4]"},
    {"ValueOfOtherHeadDim", Reshape("a/value/kernel", {6, 2, 5}),
     "a/out/kernel: shape [4, 3, 7], wanted [4, 5, 7] to go with a/query/kernel [3, 4, 4] and a/value/kernel [6, 2, "
     "5]"},
    {"OutTransposed", Reshape("a/out/kernel", {7, 4, 3}),
     "a/out/kernel: shape [7, 4, 3], wanted [4, 3, 3] to go with a/query/kernel [3, 4, 4] and a/value/kernel [6, 2, "
     "3]"},
    {"QueryRank", Reshape("a/query/kernel", {3, 16}),
     "a/query/kernel: shape [3, 16], wanted 3 axes: in_features, num_heads, head_dim"},
    {"KeyRank", Reshape("a/key/kernel", {5, 8}),
     "a/key/kernel: shape [5, 8], wanted 3 axes: in_k_features, num_kv_heads, head_dim"},
    {"ValueRank", Reshape("a/value/kernel", {6, 6}),
     "a/value/kernel: shape [6, 6], wanted 3 axes: in_v_features, num_kv_heads, value_head_dim"},
    {"OutRank", Reshape("a/out/kernel", {12, 7}),
     "a/out/kernel: shape [12, 7], wanted 3 axes: num_heads, value_head_dim, out_features"},
    {"FlatBias", Reshape("a/query/bias", {16}),
     "a/query/bias: shape [16], wanted [4, 4] to go with a/query/kernel [3, 4, 4]"},
    {"KeyBiasOfQueryHeads", Reshape("a/key/bias", {4, 4}),
     "a/key/bias: shape [4, 4], wanted [2, 4] to go with a/key/kernel [5, 2, 4]"},
    {"OutBias", Reshape("a/out/bias", {1, 7}),
     "a/out/bias: shape [1, 7], wanted [7] to go with a/out/kernel [4, 3, 7]"},
    {"NoFeatures", Reshape("a/query/kernel", {0, 4, 4}), "a/query/kernel: shape [0, 4, 4], wanted sizes of at least 1"},
    {"NormPerHead", Reshape("a/query_ln/scale", {4, 4}),
     "a/query_ln/scale: shape [4, 4], wanted [4] to go with a/query/kernel [3, 4, 4]"},
    {"NormOfValueHeadDim", Reshape("a/key_ln/scale", {3}),
     "a/key_ln/scale: shape [3], wanted [4] to go with a/query/kernel [3, 4, 4]"},
    {"IntegerKernel", MakeIntegers("a/key/kernel"),
     "a/key/kernel: dtype int32, wanted float32, bfloat16, float16 or float64"},
    {"IntegerNorm", MakeIntegers("a/key_ln/scale"),
     "a/key_ln/scale: dtype int32, wanted float32, bfloat16, float16 or float64"},
};

const Fault kPresence[] = {
    {"NoQuery", Remove("a/query/kernel"), "a/query/kernel: missing, wanted with the other kernels of the layer"},
    {"NoKey", Remove("a/key/kernel"), "a/key/kernel: missing, wanted with the other kernels of the layer"},
    {"NoValue", Remove("a/value/kernel"), "a/value/kernel: missing, wanted with the other kernels of the layer"},
    {"NoOut", Remove("a/out/kernel"), "a/out/kernel: missing, wanted with the other kernels of the layer"},
    {"QueryNormAlone", Remove("a/key_ln/scale"), "a/key_ln/scale: missing, wanted with query_ln/scale"},
    {"KeyNormAlone", Remove("a/query_ln/scale"), "a/query_ln/scale: missing, wanted with key_ln/scale"},
    {"QueryNormBias", Add({Ones("a/query_ln/bias", {4})}),
     "a/query_ln/bias: found, wanted none: the LayerNorm of queries and keys (normalize_qk) has a scale alone"},
    {"KeyNormBias", Add({Ones("a/key_ln/bias", {4})}),
     "a/key_ln/bias: found, wanted none: the LayerNorm of queries and keys (normalize_qk) has a scale alone"},
    {"SameName", Add(Layer("params/a/")), "duplicate weight set ocr/a: from a/query/kernel and params/a/query/kernel"},
    {"SameNameInOtherCase", Add(Layer("A/")), "duplicate weight set ocr/a: from A/query/kernel and a/query/kernel"},
    {"BadPath", Add(Layer("b c/")),
     "weight set: wanted a name [a-z0-9][a-z0-9._/-]{0,127} without \"..\", \"//\" and a last \"/\", found \"ocr/b "
     "c\""},
    {"SecondLayerBroken", Add({Ones("b/query/kernel", {1, 1, 1})}),
     "b/key/kernel: missing, wanted with the other kernels of the layer"},
};

INSTANTIATE_TEST_SUITE_P(Shapes, LayerRulesTest, ::testing::ValuesIn(kShapes),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Presence, LayerRulesTest, ::testing::ValuesIn(kPresence),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace attention::server
