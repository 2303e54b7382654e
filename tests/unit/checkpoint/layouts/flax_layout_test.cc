#include <gmock/gmock.h>

#include "tests/testing/matchers.h"
#include "tests/unit/checkpoint/layouts/layouts_fixture.h"

namespace attention::server {
namespace {

using ::attention::test::Add;
using ::attention::test::Checkpoint;
using ::attention::test::IsOk;
using ::attention::test::LayoutFault;
using ::attention::test::MakeIntegers;
using ::attention::test::Ones;
using ::attention::test::Parameter;
using ::attention::test::Parameters;
using ::attention::test::RandomLayer;
using ::attention::test::Remove;
using ::attention::test::Reshape;
using ::attention::test::StatusIs;
using ::attention::test::ToParameters;
using ::attention::test::WithLayerNorm;
using ::attention::test::operator+;

// Four query heads, two key and value heads, the latter of another size.
constexpr LayerShape kShape = {.in_features = 3,
                               .in_k_features = 5,
                               .in_v_features = 6,
                               .heads = {.num_heads = 4, .num_kv_heads = 2, .head_dim = 4, .value_head_dim = 3},
                               .out_features = 7};

Parameters Layer(const std::string& prefix) { return ToParameters(WithLayerNorm(RandomLayer(kShape, 1), 2), prefix); }

class FlaxLayoutFaultsTest : public ::testing::TestWithParam<LayoutFault> {};

TEST_P(FlaxLayoutFaultsTest, IsRefused) {
  Parameters parameters = Layer("a/");
  GetParam().damage(parameters);
  EXPECT_THAT(Checkpoint(parameters).Find(), StatusIs(absl::StatusCode::kInvalidArgument, GetParam().message));
}

const LayoutFault kShapes[] = {
    {"KeySameCount", Reshape("a/key/kernel", {5, 4, 2}),
     "a/key/kernel: expected shape [5, num_kv_heads, 4] with num_kv_heads a divisor of 4 to match "
     "a/query/kernel [3, 4, 4], got shape [5, 4, 2]"},
    {"KeyHeadsNoDivisor", Reshape("a/key/kernel", {5, 3, 4}),
     "a/key/kernel: expected shape [5, num_kv_heads, 4] with num_kv_heads a divisor of 4 to match "
     "a/query/kernel [3, 4, 4], got shape [5, 3, 4]"},
    {"MoreKeyHeadsThanHeads", Reshape("a/key/kernel", {5, 8, 4}),
     "a/key/kernel: expected shape [5, num_kv_heads, 4] with num_kv_heads a divisor of 4 to match "
     "a/query/kernel [3, 4, 4], got shape [5, 8, 4]"},
    {"ValueOfOtherHeads", Reshape("a/value/kernel", {6, 4, 3}),
     "a/value/kernel: expected shape [6, 2, 3] to match a/key/kernel [5, 2, 4], got shape [6, 4, 3]"},
    {"ValueOfOtherHeadDim", Reshape("a/value/kernel", {6, 2, 5}),
     "a/out/kernel: expected shape [4, 5, 7] to match a/query/kernel [3, 4, 4] and a/value/kernel [6, 2, "
     "5], got shape [4, 3, 7]"},
    {"OutTransposed", Reshape("a/out/kernel", {7, 4, 3}),
     "a/out/kernel: expected shape [4, 3, 3] to match a/query/kernel [3, 4, 4] and a/value/kernel [6, 2, "
     "3], got shape [7, 4, 3]"},
    {"QueryRank", Reshape("a/query/kernel", {3, 16}),
     "a/query/kernel: expected shape [in_features, num_heads, head_dim], got shape [3, 16]"},
    {"KeyRank", Reshape("a/key/kernel", {5, 8}),
     "a/key/kernel: expected shape [in_k_features, num_kv_heads, head_dim], got shape [5, 8]"},
    {"ValueRank", Reshape("a/value/kernel", {6, 6}),
     "a/value/kernel: expected shape [in_v_features, num_kv_heads, value_head_dim], got shape [6, 6]"},
    {"OutRank", Reshape("a/out/kernel", {12, 7}),
     "a/out/kernel: expected shape [num_heads, value_head_dim, out_features], got shape [12, 7]"},
    {"FlatBias", Reshape("a/query/bias", {16}),
     "a/query/bias: expected shape [4, 4] to match a/query/kernel [3, 4, 4], got shape [16]"},
    {"KeyBiasOfQueryHeads", Reshape("a/key/bias", {4, 4}),
     "a/key/bias: expected shape [2, 4] to match a/key/kernel [5, 2, 4], got shape [4, 4]"},
    {"OutBias", Reshape("a/out/bias", {1, 7}),
     "a/out/bias: expected shape [7] to match a/out/kernel [4, 3, 7], got shape [1, 7]"},
    {"NoFeatures", Reshape("a/query/kernel", {0, 4, 4}),
     "a/query/kernel: expected shape [in_features, num_heads, head_dim] with sizes of at least 1, got shape [0, 4, 4]"},
    {"EmptyBias", Reshape("a/query/bias", {0}),
     "a/query/bias: expected shape [4, 4] to match a/query/kernel [3, 4, 4], got shape [0]"},
    {"NormPerHead", Reshape("a/query_ln/scale", {4, 4}),
     "a/query_ln/scale: expected shape [4] to match a/query/kernel [3, 4, 4], got shape [4, 4]"},
    {"NormOfValueHeadDim", Reshape("a/key_ln/scale", {3}),
     "a/key_ln/scale: expected shape [4] to match a/query/kernel [3, 4, 4], got shape [3]"},
    {"IntegerKernel", MakeIntegers("a/key/kernel"),
     "a/key/kernel: expected dtype float32, bfloat16, float16 or float64, got int32"},
    {"IntegerNorm", MakeIntegers("a/key_ln/scale"),
     "a/key_ln/scale: expected dtype float32, bfloat16, float16 or float64, got int32"},
};

const LayoutFault kPresence[] = {
    {"NoQuery", Remove("a/query/kernel"), "a/query/kernel: missing, required with the other kernels of the layer"},
    {"NoKey", Remove("a/key/kernel"), "a/key/kernel: missing, required with the other kernels of the layer"},
    {"NoValue", Remove("a/value/kernel"), "a/value/kernel: missing, required with the other kernels of the layer"},
    {"NoOut", Remove("a/out/kernel"), "a/out/kernel: missing, required with the other kernels of the layer"},
    {"NoQueryBias", Remove("a/query/bias"), "a/query/bias: missing, required with key/bias"},
    {"NoKeyBias", Remove("a/key/bias"), "a/key/bias: missing, required with query/bias"},
    {"NoValueBias", Remove("a/value/bias"), "a/value/bias: missing, required with query/bias"},
    {"NoOutBias", Remove("a/out/bias"), "a/out/bias: missing, required with query/bias"},
    {"DuplicateKernel", Add({Ones("a.key/kernel", {5, 2, 4})}),
     "a/key/kernel: expected one tensor, got a.key/kernel and a/key/kernel"},
    {"DuplicateKernelOfNnx", Add({Ones("a/key/kernel/value", {5, 2, 4})}),
     "a/key/kernel: expected one tensor, got a/key/kernel and a/key/kernel/value"},
    {"QueryNormAlone", Remove("a/key_ln/scale"), "a/key_ln/scale: missing, required with query_ln/scale"},
    {"KeyNormAlone", Remove("a/query_ln/scale"), "a/query_ln/scale: missing, required with key_ln/scale"},
    {"QueryNormBias", Add({Ones("a/query_ln/bias", {4})}),
     "a/query_ln/bias: not supported; the LayerNorm of queries and keys (normalize_qk) has only a scale"},
    {"KeyNormBias", Add({Ones("a/key_ln/bias", {4})}),
     "a/key_ln/bias: not supported; the LayerNorm of queries and keys (normalize_qk) has only a scale"},
    {"SameName", Add(Layer("params/a/")),
     "weight set ocr/a: expected one layer, got a/query/kernel and params/a/query/kernel"},
    {"SameNameInOtherCase", Add(Layer("A/")),
     "weight set ocr/a: expected one layer, got A/query/kernel and a/query/kernel"},
    {"BadPath", Add(Layer("b c/")),
     "weight set: expected a name [a-z0-9][a-z0-9._/-]{0,127} without \"..\", \"//\" and a final \"/\", got "
     "\"ocr/b c\""},
    {"SecondLayerBroken", Add({Ones("b/query/kernel", {1, 1, 1})}),
     "b/key/kernel: missing, required with the other kernels of the layer"},
};

// How a file spells the names of the parameters.
struct Spelling {
  std::string name;
  std::string prefix;
  std::string separator;
  std::string suffix;
  std::string weight_set;
};

void PrintTo(const Spelling& spelling, std::ostream* out) { *out << spelling.name; }

class FlaxLayoutSpellingTest : public ::testing::TestWithParam<Spelling> {};

TEST_P(FlaxLayoutSpellingTest, IsRead) {
  Parameters parameters = Layer("");
  for (Parameter& parameter : parameters) {
    const size_t slash = parameter.name.find('/');
    parameter.name = GetParam().prefix + parameter.name.substr(0, slash) + GetParam().separator +
                     parameter.name.substr(slash + 1) + GetParam().suffix;
  }
  const Checkpoint checkpoint(parameters);
  const absl::StatusOr<CheckpointLayers> found = checkpoint.Find();
  ASSERT_THAT(found, IsOk());
  EXPECT_THAT(found->unused_tensors, ::testing::IsEmpty());
  ASSERT_EQ(found->layers.size(), 1);
  const LayerTensors& layer = found->layers[0];
  EXPECT_EQ(layer.name, GetParam().weight_set);
  EXPECT_EQ(layer.layout, "flax");
  ASSERT_EQ(layer.parameters.size(), 10);
  EXPECT_EQ(layer.parameters[0].name, "key" + GetParam().separator + "bias" + GetParam().suffix);
  const LayerParameters expected = WithLayerNorm(RandomLayer(kShape, 1), 2), read = ReadParameters(layer);
  EXPECT_EQ(read.key_kernel, expected.key_kernel);
  EXPECT_EQ(read.value_bias, expected.value_bias);
  EXPECT_EQ(read.query_ln_scale, expected.query_ln_scale);
}

const Spelling kSpellings[] = {
    {"Linen", "params/layer0/", "/", "", "ocr/layer0"},
    {"Nnx", "layers/0/attn/", "/", "/value", "ocr/layers/0/attn"},
    {"Dotted", "params.Layer_0.", ".", "", "ocr/layer_0"},
    {"DottedNnx", "layers.0.", ".", ".value", "ocr/layers/0"},
    {"DotsWithinSlashes", "encoder.1/", "/", "", "ocr/encoder/1"},
    {"Root", "", ".", "", "ocr"},
};

INSTANTIATE_TEST_SUITE_P(Spellings, FlaxLayoutSpellingTest, ::testing::ValuesIn(kSpellings),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Shapes, FlaxLayoutFaultsTest, ::testing::ValuesIn(kShapes),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Presence, FlaxLayoutFaultsTest, ::testing::ValuesIn(kPresence),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace attention::server
