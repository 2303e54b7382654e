#include "server/checkpoint/layouts/layers.h"

#include <gmock/gmock.h>

#include "tests/testing/matchers.h"
#include "tests/unit/checkpoint/layouts/layouts_fixture.h"

namespace attention::server {
namespace {

using ::attention::test::Checkpoint;
using ::attention::test::Counted;
using ::attention::test::IsOk;
using ::attention::test::Ones;
using ::attention::test::Parameter;
using ::attention::test::Parameters;
using ::attention::test::RandomLayer;
using ::attention::test::StatusIs;
using ::attention::test::ToParameters;
using ::attention::test::WithLayerNorm;
using ::attention::test::operator+;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr LayerShape kShape = {.in_features = 3,
                               .in_k_features = 5,
                               .in_v_features = 6,
                               .heads = {.num_heads = 2, .num_kv_heads = 2, .head_dim = 4, .value_head_dim = 4},
                               .out_features = 7};

Parameters Layer(const std::string& prefix) { return ToParameters(RandomLayer(kShape, 1), prefix); }

std::vector<std::string> Names(const CheckpointLayers& layers) {
  std::vector<std::string> names;
  for (const LayerTensors& layer : layers.layers) names.push_back(layer.name);
  return names;
}

TEST(LayersTest, ReadsShapeParametersAndValues) {
  const LayerParameters expected = RandomLayer(kShape, 1);
  const Checkpoint checkpoint(Layer("layer0/"));
  const absl::StatusOr<CheckpointLayers> found = checkpoint.Find();
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
  EXPECT_EQ(read.shape.heads.num_heads, 2);
  EXPECT_EQ(read.shape.heads.num_kv_heads, 2);
  EXPECT_EQ(read.shape.heads.head_dim, 4);
  EXPECT_EQ(read.shape.heads.value_head_dim, 4);
  EXPECT_EQ(read.shape.out_features, 7);
  EXPECT_EQ(read.query_kernel, expected.query_kernel);
  EXPECT_EQ(read.query_bias, expected.query_bias);
  EXPECT_EQ(read.key_kernel, expected.key_kernel);
  EXPECT_EQ(read.key_bias, expected.key_bias);
  EXPECT_EQ(read.value_kernel, expected.value_kernel);
  EXPECT_EQ(read.value_bias, expected.value_bias);
  EXPECT_EQ(read.out_kernel, expected.out_kernel);
  EXPECT_EQ(read.out_bias, expected.out_bias);
  EXPECT_TRUE(read.query_ln_scale.empty());
  EXPECT_TRUE(read.key_ln_scale.empty());
}

TEST(LayersTest, ReadsGroupedHeadsOfTwoSizesWithTheirLayerNorms) {
  LayerShape shape = kShape;
  shape.heads = {.num_heads = 6, .num_kv_heads = 2, .head_dim = 4, .value_head_dim = 3};
  const LayerParameters expected = WithLayerNorm(RandomLayer(shape, 1), 2);
  const Checkpoint checkpoint(ToParameters(expected, "a/"));
  const absl::StatusOr<CheckpointLayers> found = checkpoint.Find();
  ASSERT_THAT(found, IsOk());
  EXPECT_THAT(found->unused_tensors, IsEmpty());
  const LayerTensors& layer = found->layers[0];
  ASSERT_THAT(layer.parameters, SizeIs(10));
  EXPECT_EQ(layer.parameters[2].name, "key_ln/scale");
  EXPECT_EQ(layer.parameters[7].name, "query_ln/scale");
  EXPECT_EQ(layer.parameters[7].shape, Shape({4}));
  EXPECT_EQ(Float32Bytes(layer.parameters), 4 * (3 * 24 + 24 + 5 * 8 + 8 + 6 * 6 + 6 + 18 * 7 + 7 + 4 + 4));

  const LayerParameters read = ReadParameters(layer);
  EXPECT_EQ(read.shape.heads.num_heads, 6);
  EXPECT_EQ(read.shape.heads.num_kv_heads, 2);
  EXPECT_EQ(read.shape.heads.head_dim, 4);
  EXPECT_EQ(read.shape.heads.value_head_dim, 3);
  EXPECT_EQ(read.value_kernel, expected.value_kernel);
  EXPECT_EQ(read.query_ln_scale, expected.query_ln_scale);
  EXPECT_EQ(read.key_ln_scale, expected.key_ln_scale);
}

TEST(LayersTest, ReadsOneKeyHeadForAllQueryHeads) {
  LayerShape shape = kShape;
  shape.heads.num_kv_heads = 1;
  const Checkpoint checkpoint(ToParameters(RandomLayer(shape, 1), ""));
  const absl::StatusOr<CheckpointLayers> found = checkpoint.Find();
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ(found->layers[0].shape.heads.num_kv_heads, 1);
}

TEST(LayersTest, NamesLayersByTheirPath) {
  const Checkpoint checkpoint(Layer("") + Layer("layer0/") + Layer("params/Encoder_1/MultiHeadDotProductAttention_0/"));
  const absl::StatusOr<CheckpointLayers> found = checkpoint.Find();
  ASSERT_THAT(found, IsOk());
  EXPECT_THAT(Names(*found), ElementsAre("ocr", "ocr/encoder_1/multiheaddotproductattention_0", "ocr/layer0"));
}

TEST(LayersTest, DropsParamsBeforeAnEmptyPath) {
  const Checkpoint checkpoint(Layer("params/"));
  const absl::StatusOr<CheckpointLayers> found = checkpoint.Find();
  ASSERT_THAT(found, IsOk());
  EXPECT_THAT(Names(*found), ElementsAre("ocr"));
  EXPECT_EQ(found->layers[0].parameters[0].name, "key/bias");
}

TEST(LayersTest, ReadsMissingBiasesAsZero) {
  Parameters parameters = Layer("");
  std::erase_if(parameters, [](const Parameter& parameter) { return parameter.name.ends_with("bias"); });
  const Checkpoint checkpoint(parameters);
  const absl::StatusOr<CheckpointLayers> found = checkpoint.Find();
  ASSERT_THAT(found, IsOk());
  const LayerParameters read = ReadParameters(found->layers[0]);
  EXPECT_THAT(read.query_bias, IsEmpty());
  EXPECT_THAT(read.key_bias, IsEmpty());
  EXPECT_THAT(read.value_bias, IsEmpty());
  EXPECT_THAT(read.out_bias, IsEmpty());
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
  const absl::StatusOr<CheckpointLayers> found = checkpoint.Find();
  ASSERT_THAT(found, IsOk());
  EXPECT_THAT(ReadParameters(found->layers[0]).query_bias, ElementsAre(1, -123.5, 1, -123.5, 1, -123.5, 1, -123.5));
  EXPECT_EQ(found->layers[0].parameters[4].dtype, DType::kBFloat16);
}

TEST(LayersTest, ListsTensorsOfNoLayer) {
  const Checkpoint checkpoint(Layer("layer0/") + Parameters{Ones("mlp/out/kernel", {3, 3}), Ones("mlp/out/bias", {3}),
                                                            Ones("embedding", {2}), Ones("layer0/query/scale", {1}),
                                                            Ones("layer0/my_query/kernel", {1}), Ones("query", {1}),
                                                            Ones("mlp/query_ln/scale", {1}),
                                                            Ones("mlp/query_ln/bias", {1})});
  const absl::StatusOr<CheckpointLayers> found = checkpoint.Find();
  ASSERT_THAT(found, IsOk());
  EXPECT_THAT(Names(*found), ElementsAre("ocr/layer0"));
  EXPECT_THAT(found->unused_tensors,
              ElementsAre("embedding", "layer0/my_query/kernel", "layer0/query/scale", "mlp/out/bias", "mlp/out/kernel",
                          "mlp/query_ln/bias", "mlp/query_ln/scale", "query"));
}

TEST(LayersTest, IgnoresTheStateOfAnOptimizer) {
  const Checkpoint checkpoint(Layer("params/a/") + Layer("opt_state/0/mu/params/a/"));
  const absl::StatusOr<CheckpointLayers> found = checkpoint.Find();
  ASSERT_THAT(found, IsOk());
  EXPECT_THAT(Names(*found), ElementsAre("ocr/a"));
  EXPECT_THAT(found->unused_tensors, SizeIs(8));
}

TEST(LayersTest, FindsLayersOfSeveralLayoutsInOneFile) {
  const Checkpoint checkpoint(Layer("a/") +
                              Parameters{Counted("b.in_proj_weight", 6, 2), Counted("b.out_proj.weight", 2, 2),
                                         Counted("c.self.query.weight", 2, 2), Counted("c.self.key.weight", 2, 2),
                                         Counted("c.self.value.weight", 2, 2), Counted("c.output.dense.weight", 2, 2),
                                         Counted("d.q_proj.weight", 2, 2), Counted("d.k_proj.weight", 2, 2),
                                         Counted("d.v_proj.weight", 2, 2), Counted("d.o_proj.weight", 2, 2)});
  const absl::StatusOr<CheckpointLayers> found = checkpoint.Find(1);
  ASSERT_THAT(found, IsOk());
  std::vector<std::string> layouts;
  for (const LayerTensors& layer : found->layers) layouts.push_back(layer.name + " " + layer.layout);
  EXPECT_THAT(layouts, ElementsAre("ocr/a flax", "ocr/b torch", "ocr/c bert", "ocr/d projections"));
  EXPECT_THAT(found->unused_tensors, IsEmpty());
}

TEST(LayersTest, RefusesOneLayerInTwoLayouts) {
  const Checkpoint checkpoint(Layer("a/") + Parameters{Ones("a.in_proj_weight", {6, 2})});
  EXPECT_THAT(checkpoint.Find(1),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "a/query/kernel: expected a layer in one layout, flax or torch, got a.in_proj_weight as well"));
}

TEST(LayersTest, NamesTheTensorsOfEveryLayoutIfThereIsNoLayer) {
  const Checkpoint checkpoint({Ones("out_proj.weight", {3}), Ones("out/kernel", {1, 1, 1})});
  EXPECT_THAT(checkpoint.Find(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "tensors: expected an attention layer, which has below some PATH: query/kernel, key/kernel, "
                       "value/kernel and out/kernel (flax); in_proj_weight and out_proj.weight (torch); "
                       "self.query.weight, self.key.weight, self.value.weight and output.dense.weight (bert); "
                       "q_proj.weight, k_proj.weight, v_proj.weight and o_proj.weight (projections), got 2 tensors "
                       "of other names"));
}

TEST(LayersTest, RefusesAShapeThatTheOtherTensorsDoNotMatch) {
  Checkpoint checkpoint(Layer("a/"));
  for (NamedTensor& tensor : checkpoint.tensors.tensors) {
    if (tensor.name == "a/query/kernel") tensor.shape = {int64_t{1} << 40, int64_t{1} << 40, 4};
  }
  EXPECT_THAT(checkpoint.Find(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("a/out/kernel: expected shape [1099511627776, 4, 7] to match a/query/kernel")));
}

}  // namespace
}  // namespace attention::server
