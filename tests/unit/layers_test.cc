#include "server/weights/layers.h"

#include <gmock/gmock.h>

#include <cstring>
#include <functional>

#include "server/weights/formats/safetensors.h"
#include "tests/testing/matchers.h"
#include "tests/testing/weights.h"

namespace attention::server {
namespace {

using ::attention::test::FloatParameter;
using ::attention::test::IsOk;
using ::attention::test::Parameter;
using ::attention::test::Parameters;
using ::attention::test::RandomLayer;
using ::attention::test::StatusIs;
using ::attention::test::ToParameters;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr LayerShape kShape = {
    .in_features = 3, .in_k_features = 5, .in_v_features = 6, .num_heads = 2, .head_dim = 4, .out_features = 7};

// A file of those tensors, and what is in it.
struct Checkpoint {
  explicit Checkpoint(const Parameters& parameters) : file(test::Serialize(parameters)) {
    tensors = ParseSafetensors({reinterpret_cast<const std::byte*>(file.data()), file.size()}).value();
  }

  std::string file;
  TensorMap tensors;
};

Parameters Layer(const std::string& prefix) { return ToParameters(RandomLayer(kShape, 1), prefix); }

Parameters operator+(Parameters a, const Parameters& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Parameter Ones(const std::string& name, const Shape& shape) {
  return FloatParameter(name, shape, std::vector<float>(*ElementCount(shape), 1.0f));
}

std::vector<std::string> Names(const CheckpointLayers& layers) {
  std::vector<std::string> names;
  for (const LayerTensors& layer : layers.layers) names.push_back(layer.name);
  return names;
}

TEST(LayersTest, ReadsShapeParametersAndNumbers) {
  const LayerParameters wanted = RandomLayer(kShape, 1);
  const Checkpoint checkpoint(Layer("layer0/"));
  const absl::StatusOr<CheckpointLayers> found = FindLayers("ocr", checkpoint.tensors);
  ASSERT_THAT(found, IsOk());
  ASSERT_THAT(found->layers, SizeIs(1));
  const LayerTensors& layer = found->layers[0];
  EXPECT_EQ(layer.name, "ocr/layer0");
  EXPECT_EQ(Float32Bytes(layer.parameters), 4 * (3 * 8 + 5 * 8 + 6 * 8 + 8 * 7 + 3 * 8 + 7));
  ASSERT_THAT(layer.parameters, SizeIs(8));
  EXPECT_EQ(layer.parameters[0].name, "key/bias");
  EXPECT_EQ(layer.parameters[3].name, "out/kernel");
  EXPECT_EQ(layer.parameters[3].shape, Shape({2, 4, 7}));

  const LayerParameters read = ReadParameters(layer);
  EXPECT_EQ(read.shape.in_features, 3);
  EXPECT_EQ(read.shape.in_k_features, 5);
  EXPECT_EQ(read.shape.in_v_features, 6);
  EXPECT_EQ(read.shape.num_heads, 2);
  EXPECT_EQ(read.shape.head_dim, 4);
  EXPECT_EQ(read.shape.out_features, 7);
  EXPECT_EQ(read.query_kernel, wanted.query_kernel);
  EXPECT_EQ(read.query_bias, wanted.query_bias);
  EXPECT_EQ(read.key_kernel, wanted.key_kernel);
  EXPECT_EQ(read.key_bias, wanted.key_bias);
  EXPECT_EQ(read.value_kernel, wanted.value_kernel);
  EXPECT_EQ(read.value_bias, wanted.value_bias);
  EXPECT_EQ(read.out_kernel, wanted.out_kernel);
  EXPECT_EQ(read.out_bias, wanted.out_bias);
}

TEST(LayersTest, NamesLayersByTheirPath) {
  const Checkpoint checkpoint(Layer("") + Layer("layer0/") + Layer("params/Encoder_1/MultiHeadDotProductAttention_0/"));
  const absl::StatusOr<CheckpointLayers> found = FindLayers("ocr", checkpoint.tensors);
  ASSERT_THAT(found, IsOk());
  EXPECT_THAT(Names(*found), ElementsAre("ocr", "ocr/encoder_1/multiheaddotproductattention_0", "ocr/layer0"));
}

TEST(LayersTest, DropsParamsBeforeAnEmptyPath) {
  const Checkpoint checkpoint(Layer("params/"));
  const absl::StatusOr<CheckpointLayers> found = FindLayers("ocr", checkpoint.tensors);
  ASSERT_THAT(found, IsOk());
  EXPECT_THAT(Names(*found), ElementsAre("ocr"));
  EXPECT_EQ(found->layers[0].parameters[0].name, "key/bias");
}

TEST(LayersTest, TakesEachBiasByItself) {
  for (const std::string bias : {"query/bias", "key/bias", "value/bias", "out/bias"}) {
    Parameters parameters = Layer("");
    std::erase_if(parameters, [&bias](const Parameter& parameter) { return parameter.name == bias; });
    const Checkpoint checkpoint(parameters);
    const absl::StatusOr<CheckpointLayers> found = FindLayers("ocr", checkpoint.tensors);
    ASSERT_THAT(found, IsOk()) << bias;
    const LayerParameters read = ReadParameters(found->layers[0]);
    EXPECT_EQ(read.query_bias.empty(), bias == "query/bias") << bias;
    EXPECT_EQ(read.key_bias.empty(), bias == "key/bias") << bias;
    EXPECT_EQ(read.value_bias.empty(), bias == "value/bias") << bias;
    EXPECT_EQ(read.out_bias.empty(), bias == "out/bias") << bias;
  }
}

TEST(LayersTest, ConvertsNarrowTypes) {
  Parameters parameters = Layer("");
  const uint16_t bits[] = {0x3F80, 0xC2F7};
  Parameter& bias = parameters[1];
  ASSERT_EQ(bias.name, "query/bias");
  bias.dtype = DType::kBFloat16;
  bias.bytes.clear();
  for (int i = 0; i < 8; ++i) bias.bytes.append(reinterpret_cast<const char*>(&bits[i % 2]), 2);
  const Checkpoint checkpoint(parameters);
  const absl::StatusOr<CheckpointLayers> found = FindLayers("ocr", checkpoint.tensors);
  ASSERT_THAT(found, IsOk());
  EXPECT_THAT(ReadParameters(found->layers[0]).query_bias, ElementsAre(1, -123.5, 1, -123.5, 1, -123.5, 1, -123.5));
  EXPECT_EQ(found->layers[0].parameters[4].dtype, DType::kBFloat16);
}

TEST(LayersTest, ListsWhatBelongsToNoLayer) {
  const Checkpoint checkpoint(Layer("layer0/") + Parameters{Ones("mlp/out/kernel", {3, 3}), Ones("mlp/out/bias", {3}),
                                                            Ones("embedding", {2}), Ones("layer0/query/scale", {1}),
                                                            Ones("layer0/my_query/kernel", {1}), Ones("query", {1})});
  const absl::StatusOr<CheckpointLayers> found = FindLayers("ocr", checkpoint.tensors);
  ASSERT_THAT(found, IsOk());
  EXPECT_THAT(Names(*found), ElementsAre("ocr/layer0"));
  EXPECT_THAT(found->unused_tensors, ElementsAre("embedding", "layer0/my_query/kernel", "layer0/query/scale",
                                                 "mlp/out/bias", "mlp/out/kernel", "query"));
}

struct Fault {
  std::string name;
  std::function<void(Parameters&)> damage;  // of a good layer below "a/"
  std::string message;
};

void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }

class LayersFaultTest : public ::testing::TestWithParam<Fault> {};

TEST_P(LayersFaultTest, IsRefused) {
  Parameters parameters = Layer("a/");
  GetParam().damage(parameters);
  const Checkpoint checkpoint(parameters);
  EXPECT_THAT(FindLayers("ocr", checkpoint.tensors), StatusIs(absl::StatusCode::kInvalidArgument, GetParam().message));
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

void MakeKeyKernelIntegers(Parameters& parameters) {
  for (Parameter& parameter : parameters) {
    if (parameter.name == "a/key/kernel") parameter.dtype = DType::kInt32;
  }
}

const Fault kFaults[] = {
    {"KeySameCount", Reshape("a/key/kernel", {5, 4, 2}),
     "a/key/kernel: shape [5, 4, 2], wanted [5, 2, 4] to go with a/query/kernel [3, 2, 4]"},
    {"ValueHeadDim", Reshape("a/value/kernel", {6, 2, 5}),
     "a/value/kernel: shape [6, 2, 5], wanted [6, 2, 4] to go with a/query/kernel [3, 2, 4]"},
    {"FewerKeyHeads", Reshape("a/key/kernel", {5, 1, 4}),
     "a/key/kernel: shape [5, 1, 4], wanted [5, 2, 4] to go with a/query/kernel [3, 2, 4]"},
    {"OutTransposed", Reshape("a/out/kernel", {7, 2, 4}),
     "a/out/kernel: shape [7, 2, 4], wanted [2, 4, 4] to go with a/query/kernel [3, 2, 4]"},
    {"QueryRank", Reshape("a/query/kernel", {3, 8}),
     "a/query/kernel: shape [3, 8], wanted 3 axes: in_features, num_heads, head_dim"},
    {"OutRank", Reshape("a/out/kernel", {8, 7}),
     "a/out/kernel: shape [8, 7], wanted 3 axes: num_heads, head_dim, out_features"},
    {"FlatBias", Reshape("a/query/bias", {8}),
     "a/query/bias: shape [8], wanted [2, 4] to go with a/query/kernel [3, 2, 4]"},
    {"OutBias", Reshape("a/out/bias", {1, 7}),
     "a/out/bias: shape [1, 7], wanted [7] to go with a/out/kernel [2, 4, 7]"},
    {"NoFeatures", Reshape("a/query/kernel", {0, 2, 4}), "a/query/kernel: shape [0, 2, 4], wanted sizes of at least 1"},
    {"NoQuery", Remove("a/query/kernel"), "a/query/kernel: missing, wanted with the other kernels of the layer"},
    {"NoKey", Remove("a/key/kernel"), "a/key/kernel: missing, wanted with the other kernels of the layer"},
    {"NoValue", Remove("a/value/kernel"), "a/value/kernel: missing, wanted with the other kernels of the layer"},
    {"NoOut", Remove("a/out/kernel"), "a/out/kernel: missing, wanted with the other kernels of the layer"},
    {"IntegerKernel", MakeKeyKernelIntegers, "a/key/kernel: dtype int32, wanted float32, bfloat16, float16 or float64"},
    {"SameName", Add(Layer("params/a/")), "duplicate weight set ocr/a: from a/query/kernel and params/a/query/kernel"},
    {"SameNameInOtherCase", Add(Layer("A/")), "duplicate weight set ocr/a: from A/query/kernel and a/query/kernel"},
    {"BadPath", Add(Layer("b c/")),
     "weight set: wanted a name [a-z0-9][a-z0-9._/-]{0,127} without \"..\", \"//\" and a last \"/\", found \"ocr/b "
     "c\""},
    {"SecondLayerBroken", Add({Ones("b/query/kernel", {1, 1, 1})}),
     "b/key/kernel: missing, wanted with the other kernels of the layer"},
};

INSTANTIATE_TEST_SUITE_P(Faults, LayersFaultTest, ::testing::ValuesIn(kFaults),
                         [](const auto& info) { return info.param.name; });

TEST(LayersTest, SaysWhatItLookedFor) {
  const Checkpoint checkpoint({Ones("in_proj_weight", {3}), Ones("out/kernel", {1, 1, 1})});
  EXPECT_THAT(FindLayers("ocr", checkpoint.tensors),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "no attention layer: wanted PATH/query/kernel, PATH/key/kernel, PATH/value/kernel and "
                       "PATH/out/kernel, found 2 tensors of other names"));
}

TEST(LayersTest, RefusesLayersThatNormalizeQueriesAndKeys) {
  for (const std::string norm : {"a/query_ln/scale", "a/key_ln/scale"}) {
    const Checkpoint checkpoint(Layer("a/") + Parameters{Ones(norm, {4})});
    EXPECT_THAT(FindLayers("ocr", checkpoint.tensors), StatusIs(absl::StatusCode::kUnimplemented, HasSubstr(norm)));
  }
}

TEST(LayersTest, RefusesBytesThatDoNotFitTheShape) {
  Checkpoint checkpoint(Layer("a/"));
  for (NamedTensor& tensor : checkpoint.tensors.tensors) {
    if (tensor.name == "a/query/kernel") tensor.shape = {int64_t{1} << 40, int64_t{1} << 40, 4};
  }
  EXPECT_THAT(FindLayers("ocr", checkpoint.tensors),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("wanted one of 96 bytes")));
}

}  // namespace
}  // namespace attention::server
